//! Parsing a request head and writing a response head.

use std::hint::black_box;

use phalanx_http::{
    Accepted, DateLine, Entity, Limits, Parse, Reply, ResponseBuffer, Status, Validators,
    content_type, parse,
};

/// Requests as sent by browsers, for a file whose fields are prepared.
pub(crate) fn respond(count: usize) {
    let request = b"GET /a/page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kernel\r\n\
        Accept: text/html,*/*\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\r\n";
    let (limits, date) = (Limits::default(), DateLine::new(784_111_777));
    let validators = Validators { etag: "\"v1\"", modified: 784_111_777 };
    let entity = Entity::new(content_type(b"page.html"), &validators, 2048, &[]);
    let mut out = ResponseBuffer::lines(Vec::with_capacity(1024));
    for _ in 0..count {
        out.clear();
        let Ok(Parse::Complete(request, _)) = parse(black_box(request), &limits) else {
            unreachable!("a whole request");
        };
        black_box(Accepted::by(&request));
        out.head(Status::Ok, &date, Reply::to(&request)).entity(&entity).finish();
        black_box(&out);
    }
}
