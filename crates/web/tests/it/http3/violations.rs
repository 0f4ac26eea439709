//! Clients that violate the protocol, written by hand over QUIC.

use std::path::Path;

use super::client::{block_on, connect, connect_with};
use super::{on_each_driver, site};

/// Writes `bytes` on a stream, and returns the code with which the server closes the connection.
async fn code_after(connection: &quinn::Connection, request: bool, bytes: &[u8]) -> u64 {
    let mut stream = match request {
        true => connection.open_bi().await.unwrap().0,
        false => connection.open_uni().await.unwrap(),
    };
    stream.write_all(bytes).await.unwrap();
    match connection.closed().await {
        quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn violations_close_the_connection() {
    on_each_driver(site, |_, address| {
        // (whether the stream is a request's, bytes, code)
        let table: [(bool, &[u8], u64); 6] = [
            (true, b"\0\x01x", 0x105),
            (true, b"\x01\x02\x01\0", 0x200),
            (false, b"\x01", 0x103),
            (false, b"\0\x07\x01\0", 0x10a),
            (false, b"\x02\x3f\xe1\x1f", 0x201),
            (false, b"\x03\x80", 0x202),
        ];
        for (request, bytes, code) in table {
            block_on(async {
                let connection = connect(address).await.unwrap();
                assert_eq!(code_after(&connection, request, bytes).await, code, "{bytes:?}");
            });
        }
    });
}

#[test]
fn drafts_of_quic_are_refused() {
    on_each_driver(site, |_, address| {
        // draft-ietf-quic-transport-29
        let refused = block_on(connect_with(address, 0xff00_001d)).unwrap_err();
        assert_eq!(refused, quinn::ConnectionError::VersionMismatch);
    });
}

#[test]
fn malformed_requests_end_their_streams() {
    on_each_driver(site, |_, address| {
        block_on(async {
            let connection = connect(address).await.unwrap();
            // A head that has only a method, and a stream without a head.
            for (bytes, code) in [(&b"\x01\x03\0\0\xd1"[..], 0x10e_u64), (b"", 0x10d)] {
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                send.write_all(bytes).await.unwrap();
                send.finish().unwrap();
                let error = receive.read_to_end(1000).await.unwrap_err();
                let quinn::ReadToEndError::Read(quinn::ReadError::Reset(reset)) = error else {
                    panic!("{error:?}");
                };
                assert_eq!(u64::from(reset), code);
            }
            // The connection still serves other requests, such as this GET.
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(b"\x01\x16\0\0\xd1\xd7\x51\x0a/small.txt\x50\x04h.ex").await.unwrap();
            send.finish().unwrap();
            let response = receive.read_to_end(1000).await.unwrap();
            assert!(response.ends_with(b"\0\x05small"), "{response:?}");
        });
    });
}

#[test]
fn slow_requests_are_cancelled() {
    let start = |home: &Path| {
        let mut config = site(home);
        config.timeouts.request = std::time::Duration::from_millis(100);
        config
    };
    on_each_driver(start, |_, address| {
        block_on(async {
            let connection = connect(address).await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(b"\x01\x17\0\0").await.unwrap();
            let error = receive.read_to_end(1000).await.unwrap_err();
            assert!(matches!(error, quinn::ReadToEndError::Read(quinn::ReadError::Reset(_))));
        });
    });
}

#[test]
fn the_control_stream_must_not_be_stopped() {
    on_each_driver(site, |_, address| {
        block_on(async {
            let connection = connect(address).await.unwrap();
            let mut control = connection.accept_uni().await.unwrap();
            control.stop(quinn::VarInt::from_u32(0x100)).unwrap();
            match connection.closed().await {
                quinn::ConnectionError::ApplicationClosed(close) => {
                    assert_eq!(u64::from(close.error_code), 0x104);
                }
                other => panic!("{other:?}"),
            }
        });
    });
}

/// The codes with which the server ends both directions of a request.
async fn codes_after(connection: &quinn::Connection, bytes: &[u8]) -> (u64, u64) {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(bytes).await.unwrap();
    let stopped = send.stopped().await.unwrap().expect("the server asks the client to stop");
    let error = receive.read_to_end(1000).await.unwrap_err();
    let quinn::ReadToEndError::Read(quinn::ReadError::Reset(reset)) = error else {
        panic!("{error:?}");
    };
    (stopped.into(), reset.into())
}

#[test]
fn both_directions_of_a_request_end_with_the_same_code() {
    let start = |home: &Path| {
        let mut config = site(home);
        config.timeouts.request = std::time::Duration::from_millis(100);
        config.timeouts.body = phalanx_testkit::TIMEOUT;
        config
    };
    on_each_driver(start, |server, address| {
        block_on(async {
            let connection = connect(address).await.unwrap();
            // A method only.
            let malformed = codes_after(&connection, b"\x01\x03\0\0\xd1").await;
            assert_eq!(malformed, (0x10e, 0x10e));
            // A head that never ends.
            let slow = codes_after(&connection, b"\x01\x17\0\0").await;
            assert_eq!(slow, (0x10b, 0x10b));
            // Content beyond the declared length of a POST: one byte more than the two.
            let mut request = b"\x01\x17\0\0\xd4\xd7\x51\x06/large\x50\x04h.ex\x54\x012".to_vec();
            request[1] = request.len() as u8 - 2;
            request.extend(b"\0\x03abc");
            assert_eq!(codes_after(&connection, &request).await, (0x10e, 0x10e));
            // A response with the status 413 before the end of the content.
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            let head = b"\x01\x12\0\0\xd4\xd7\x51\x06/large\x50\x04h.ex\0\x80\x01\0\0";
            send.write_all(head).await.unwrap();
            send.write_all(&[0; 20_001]).await.unwrap();
            assert!(receive.read_to_end(10_000).await.is_ok());
            assert_eq!(send.stopped().await.unwrap(), Some(quinn::VarInt::from_u32(0x100)));
            // A request in progress, so that the connection stays.
            let mut waiting = connection.open_bi().await.unwrap();
            waiting.0.write_all(head).await.unwrap();
            server.control.drain();
            let mut control = connection.accept_uni().await.unwrap();
            let mut received = Vec::new();
            // GOAWAY, after the type of the stream and SETTINGS.
            while !received.windows(2).any(|frame| frame == [7, 1]) {
                received.extend(control.read_chunk(100, true).await.unwrap().unwrap().bytes);
            }
            let rejected = codes_after(&connection, b"\x01\x16\0\0").await;
            assert_eq!(rejected, (0x10b, 0x10b));
        });
    });
}
