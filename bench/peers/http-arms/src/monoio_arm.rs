//! The arm on monoio.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use http::header::{CONNECTION, CONTENT_TYPE, DATE};
use http::{HeaderValue, StatusCode};
use monoio::io::sink::SinkExt;
use monoio::io::stream::Stream;
use monoio::net::{TcpListener, TcpStream};
use monoio::{FusionDriver, RuntimeBuilder};
use monoio_http::common::error::HttpError;
use monoio_http::common::request::Request;
use monoio_http::common::response::Response;
use monoio_http::h1::codec::ServerCodec;
use monoio_http::h1::payload::{FixedPayload, Payload};

use crate::{MESSAGE, Outcome, announce, bound};

/// The field `date`, which monoio-http does not write.
type Date = Rc<RefCell<HeaderValue>>;

/// Serves until the process is killed, on a thread for each core.
pub(crate) fn serve(processors: usize) -> Outcome {
    let first = bound(None)?;
    let address = crate::address(&first)?;
    let mut sockets = vec![first];
    for _ in 1..processors {
        sockets.push(bound(Some(address))?);
    }
    for socket in &sockets {
        socket.listen(1024)?;
    }
    announce(address);
    let threads = sockets.into_iter().map(|socket| {
        std::thread::spawn(move || {
            if let Err(error) = core(socket.into()) {
                eprintln!("a core does not serve: {error}");
                std::process::exit(1);
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("no panic");
    }
    Ok(())
}

fn core(listener: std::net::TcpListener) -> Outcome {
    RuntimeBuilder::<FusionDriver>::new().enable_timer().build()?.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let date = Date::new(RefCell::new(now()));
        monoio::spawn(keep(date.clone()));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            monoio::spawn(connection(stream, date.clone()));
        }
    })
}

fn now() -> HeaderValue {
    let text = httpdate::fmt_http_date(SystemTime::now());
    HeaderValue::from_str(&text).expect("a date is text")
}

/// Updates the date.
async fn keep(date: Date) {
    loop {
        monoio::time::sleep(Duration::from_millis(500)).await;
        date.replace(now());
    }
}

async fn connection(stream: TcpStream, date: Date) -> Result<(), HttpError> {
    let mut codec = ServerCodec::new(stream);
    while let Some(request) = codec.next().await {
        let request: Request = request?;
        let closes = request.headers().get(CONNECTION).is_some_and(|value| value == "close");
        codec.send_and_flush(respond(&request, &date)).await?;
        if closes {
            break;
        }
    }
    Ok(())
}

fn respond(request: &Request, date: &Date) -> Response {
    let mut response = match request.uri().path() {
        "/json" => {
            let body = serde_json::to_vec(&MESSAGE).expect("a message is JSON");
            let mut response = Response::new(Payload::Fixed(FixedPayload::new(body.into())));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        _ => {
            let mut response = Response::new(Payload::None);
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    };
    response.headers_mut().insert(DATE, date.borrow().clone());
    response
}
