//! Clients that send many frames which cost the server more than the client.

use std::collections::VecDeque;
use std::time::Duration;

use quinn::{Connection, VarInt};

use super::client::{block_on, connect, connect_configured};
use super::{Server, metric, on_each_driver, site};

/// H3_EXCESSIVE_LOAD.
const EXCESSIVE_LOAD: u64 = 0x107;

/// The code with which the server closes the connection.
async fn closed(connection: &Connection) -> u64 {
    match connection.closed().await {
        quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into(),
        other => panic!("{other:?}"),
    }
}

/// Sends frames with `send` until the server closes the connection, which it counts with one of `reasons`.
fn flood(reasons: &[&str], send: impl AsyncFn(Connection)) {
    let start = |home: &std::path::Path| {
        let mut config = site(home);
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
        config
    };
    on_each_driver(start, |server: &Server, address| {
        block_on(async {
            let connection = connect(address).await.unwrap();
            tokio::join!(send(connection.clone()), async {
                assert_eq!(closed(&connection).await, EXCESSIVE_LOAD);
            });
        });
        let count = |reason: &&str| {
            let name = format!("phalanx_web_http3_floods_total{{reason=\"{reason}\"}}");
            metric(server, &name).unwrap()
        };
        assert_eq!(reasons.iter().map(count).sum::<usize>(), 1);
    });
}

#[test]
fn requests_that_are_reset_immediately() {
    // The frames of a request that is reset give the client no credit for further ones.
    flood(&["resets", "idle-frames"], async |connection| {
        while let Ok((mut send, mut receive)) = connection.open_bi().await {
            let _ = send.write_all(b"\x01\x16\0\0\xd1\xd7\x51\x0a/small.txt\x50\x04h.ex").await;
            let _ = (send.reset(VarInt::from_u32(0x10c)), receive.stop(VarInt::from_u32(0x10c)));
        }
    });
}

#[test]
fn requests_that_the_server_resets() {
    flood(&["server-resets"], async |connection| {
        while let Ok((mut send, mut receive)) = connection.open_bi().await {
            // A head without a path.
            let _ = send.write_all(b"\x01\x03\0\0\xd1").await;
            let _ = send.finish();
            let _ = receive.read_to_end(1000).await;
        }
    });
}

#[test]
fn frames_of_unknown_types() {
    flood(&["idle-frames"], async |connection| {
        let Ok((mut send, _receive)) = connection.open_bi().await else { return };
        while send.write_all(&b"\x21\0".repeat(500)).await.is_ok() {}
    });
}

#[test]
fn frames_of_the_control_stream() {
    flood(&["control-frames"], async |connection| {
        let Ok(mut send) = connection.open_uni().await else { return };
        let _ = send.write_all(b"\0\x04\0").await;
        while send.write_all(&b"\x0d\x01\0".repeat(500)).await.is_ok() {}
    });
}

#[test]
fn streams_of_unknown_types() {
    // The server stops them, and the client then resets them.
    flood(&["control-frames", "resets"], async |connection| {
        while let Ok(mut send) = connection.open_uni().await {
            let _ = send.write_all(b"\x21").await;
            let _ = send.stopped().await;
        }
    });
}

#[test]
fn pings() {
    on_each_driver(site, |_, address| {
        block_on(async {
            let mut transport = quinn::TransportConfig::default();
            transport.keep_alive_interval(Some(Duration::from_millis(1)));
            let (_endpoint, connection) = connect_configured(address, transport, 1).await.unwrap();
            assert_eq!(closed(&connection).await, EXCESSIVE_LOAD);
        });
    });
}

#[test]
fn small_windows() {
    on_each_driver(site, |_, address| {
        block_on(async {
            // The server sends a byte for each window update.
            let mut transport = quinn::TransportConfig::default();
            transport.stream_receive_window(VarInt::from_u32(8));
            let (_endpoint, connection) = connect_configured(address, transport, 1).await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(b"\x01\x12\0\0\xd1\xd7\x51\x06/large\x50\x04h.ex").await.unwrap();
            send.finish().unwrap();
            let mut byte = [0];
            while let Ok(Some(_)) = receive.read(&mut byte).await {}
            assert_eq!(closed(&connection).await, EXCESSIVE_LOAD);
        });
    });
}

/// Streams without a head are counted, and do not keep a connection open.
#[test]
fn streams_without_a_head() {
    let log = std::sync::Mutex::new(std::path::PathBuf::new());
    let start = |home: &std::path::Path| {
        let mut config = site(home);
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
        *log.lock().unwrap() = home.join("log");
        config.access_log = Some(phalanx_web::AccessLog {
            format: phalanx_web::LogFormat::Combined,
            target: phalanx_web::LogTarget::File(home.join("log")),
        });
        config.timeouts.idle = Duration::from_millis(300);
        config.timeouts.request = Duration::from_secs(1);
        config
    };
    on_each_driver(start, |server: &Server, address| {
        let opened = block_on(async {
            let connection = connect(address).await.unwrap();
            // A complete request, and streams that begin after it.
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(b"\x01\x16\0\0\xd1\xd7\x51\x0a/small.txt\x50\x04h.ex").await.unwrap();
            send.finish().unwrap();
            assert!(receive.read_to_end(1000).await.unwrap().ends_with(b"small"));
            let (mut streams, mut opened) = (VecDeque::new(), 0);
            while let Ok((mut send, receive)) = connection.open_bi().await {
                let _ = send.write_all(b"\x01\x17\0\0").await;
                streams.push_back((send, receive));
                opened += 1;
                // Rejected before, so that the client may open another one.
                if streams.len() > 100 {
                    streams.pop_front();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // H3_NO_ERROR: the connection was idle.
            assert_eq!(closed(&connection).await, 0x100);
            opened
        });
        phalanx_testkit::eventually("each late stream is counted and recorded", || {
            let late = metric(server, "http_requests_total{code=\"408\"}").unwrap();
            let lines = std::fs::read_to_string(&*log.lock().unwrap()).unwrap_or_default();
            let recorded = lines.lines().filter(|line| line.contains("HTTP/3.0\" 408 0")).count();
            ((1..=opened).contains(&late) && recorded == late).then_some(())
        });
    });
}
