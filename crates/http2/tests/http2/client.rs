//! The crate `h2` as a client: both implementations agree.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use phalanx_http2::{Body, Connection, Limits, encoder};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};

/// The name and the value of a field.
type Field = (Vec<u8>, Vec<u8>);

/// A response in progress.
struct Response {
    stream: u32,
    content: Vec<u8>,
    sent: usize,
    is_answered: bool,
}

/// Serves until the client leaves. A response consists of the request's fields and as many bytes of content
/// as the path says.
async fn serve(socket: DuplexStream) {
    let (mut reader, mut writer) = split(socket);
    let mut connection = Connection::new(Limits { streams: 100, head: 16_384, body: 1 << 20 });
    let (mut input, mut responses) = (Vec::new(), Vec::<Response>::new());
    loop {
        let mut consumed = 0;
        while let Some(request) = connection.next_request(&input, &mut consumed, Duration::ZERO) {
            let length = request.head.path()[1..].parse().unwrap();
            let content = (0..length).map(|n| n as u8).collect();
            let fields = request.head.fields();
            let fields: Vec<Field> =
                fields.map(|(name, value)| (name.into(), value.into())).collect();
            let stream = request.stream;
            responses.push(Response { stream, content, sent: 0, is_answered: false });
            if !request.has_body {
                answer(&mut connection, responses.last_mut().unwrap(), &fields);
            }
            connection.recycle(request.head);
        }
        assert_eq!(connection.excess(), None, "the client is honest");
        input.drain(..consumed);
        for response in &mut responses {
            if !response.is_answered {
                // Some requests' content is taken, that of the others is discarded.
                let is_complete = match response.stream % 4 {
                    1 => takes_all(&mut connection, response.stream),
                    _ => match connection.poll_body(&mut context(), response.stream) {
                        Poll::Ready(body) => body == Ok(Body::Complete),
                        Poll::Pending => false,
                    },
                };
                if !is_complete {
                    continue;
                }
                answer(&mut connection, response, &[]);
            }
            while connection.poll_room(&mut context(), response.stream).is_ready() {
                let rest = &response.content[response.sent..];
                match connection.send(response.stream, rest, true) {
                    Ok(sent) => response.sent += sent,
                    Err(_) => break,
                }
            }
        }
        responses
            .retain(|response| !response.is_answered || response.sent < response.content.len());
        let output = connection.take_output(Vec::new());
        if !output.is_empty() {
            send(&mut writer, &output, (&mut reader, &mut input)).await;
        } else if !matches!(reader.read_buf(&mut input).await, Ok(1..)) {
            return;
        }
    }
}

/// Sends `output`, and receives meanwhile, because the client does not read while it cannot write.
async fn send(
    writer: &mut WriteHalf<DuplexStream>,
    output: &[u8],
    (reader, input): (&mut ReadHalf<DuplexStream>, &mut Vec<u8>),
) {
    let mut writing = pin!(writer.write_all(output));
    let mut is_open = true;
    let sent = poll_fn(|context| {
        while is_open && let Poll::Ready(read) = pin!(reader.read_buf(input)).poll(context) {
            is_open = matches!(read, Ok(1..));
        }
        writing.as_mut().poll(context)
    });
    sent.await.unwrap();
}

/// Takes the content that has arrived. Returns whether that was all.
fn takes_all(connection: &mut Connection, stream: u32) -> bool {
    loop {
        let mut piece = Vec::new();
        match connection.poll_content(&mut context(), stream, &mut piece) {
            Poll::Ready(more) => {
                assert!(piece.len() <= 256 << 10 && piece.iter().all(|byte| *byte == 7));
                if !more.expect("the client resets nothing") {
                    return true;
                }
            }
            Poll::Pending => return false,
        }
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn answer(connection: &mut Connection, response: &mut Response, fields: &[Field]) {
    response.is_answered = true;
    let end = response.content.is_empty();
    connection
        .respond(response.stream, end, |block| {
            encoder::status(block, 200);
            fields.iter().for_each(|(name, value)| encoder::field(block, name, value));
        })
        .unwrap();
}

/// (response length, request length, fields)
type Exchange = (usize, usize, Vec<(String, String)>);

async fn exchange(sender: client::SendRequest<Bytes>, (length, body, fields): Exchange) {
    let mut request = Request::post(format!("https://host.test/{length}"));
    for (name, value) in &fields {
        request = request.header(name, value);
    }
    let mut sender = sender.ready().await.unwrap();
    let (response, mut stream) = sender.send_request(request.body(()).unwrap(), body == 0).unwrap();
    if body > 0 {
        let mut rest = Bytes::from(vec![7; body]);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let room = poll_fn(|context| stream.poll_capacity(context)).await.unwrap().unwrap();
            let piece = rest.split_to(room.min(rest.len()));
            stream.send_data(piece, rest.is_empty()).unwrap();
        }
    }
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    if body == 0 {
        let mut expected = HeaderMap::new();
        for (name, value) in &fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            expected.append(name, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(*response.headers(), expected);
    }
    let (mut content, mut received) = (response.into_body(), Vec::new());
    while let Some(data) = content.data().await {
        let data = data.unwrap();
        content.flow_control().release_capacity(data.len()).unwrap();
        received.extend_from_slice(&data);
    }
    assert_eq!(received, (0..length).map(|n| n as u8).collect::<Vec<_>>());
}

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let length = prop_oneof![Just(0), 1..5000_usize, 1..200_000_usize];
    let body = prop_oneof![4 => Just(0), 1 => 1..200_000_usize];
    let name = prop_oneof!["x-[a-z]{1,9}", "(accept|user-agent|referer|cache-control|etag|date)"];
    let value = prop_oneof!["[!-~]{0,40}", "[a-c]{1,3}", "[!-~][ -~]{0,300}[!-~]"];
    let fields = prop::collection::vec((name, value), 0..8);
    prop::collection::vec((length, body, fields), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn responses_arrive_whole(
        exchanges in exchanges(),
        window in 1..100_000_u32,
        frame in 16_384..40_000_u32,
        table in 0..5000_u32,
        pipe in 1..100_000_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (server_end, client_end) = tokio::io::duplex(pipe);
            let server = tokio::spawn(serve(server_end));
            let (sender, connection) = client::Builder::new()
                .initial_window_size(window)
                .max_frame_size(frame)
                .header_table_size(table)
                .handshake(client_end)
                .await
                .unwrap();
            let client = tokio::spawn(connection);
            // Small windows and pipes take many turns for little content, and the window updates of 20 responses must not
            // exceed the flood limit.
            let max = pipe.min(window as usize) * 16;
            let all: Vec<_> = exchanges
                .into_iter()
                .map(|(length, body, fields)| (length.min(max), body.min(max), fields))
                .map(|each| tokio::spawn(exchange(sender.clone(), each)))
                .collect();
            drop(sender);
            for each in all {
                each.await.unwrap();
            }
            client.await.unwrap().unwrap();
            server.await.unwrap();
        });
    }
}
