//! The span of each request.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use phalanx_testkit::within_limit;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::harness::served;

/// The spans of this test: other tests of the process have other paths.
const PATH: &str = "path=\"/spans/";

/// A subscriber that writes what happens to spans.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(u64, String)>>>, Arc<AtomicU64>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Spans {
    fn note(&self, id: &Id, what: &str) {
        let mut spans = self.0.lock().unwrap();
        if let Some((_, text)) = spans.iter_mut().find(|(number, _)| *number == id.into_u64()) {
            text.push_str(what);
        }
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "phalanx_axum"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let number = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields(attributes.metadata().name().to_owned());
        attributes.record(&mut fields);
        if fields.0.contains(PATH) {
            self.0.lock().unwrap().push((number, fields.0));
        }
        Id::from_u64(number)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        self.note(id, &fields.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        self.note(id, " enter");
    }

    fn exit(&self, id: &Id) {
        self.note(id, " exit");
    }

    fn try_close(&self, id: Id) -> bool {
        self.note(&id, " close");
        true
    }
}

#[test]
fn each_request_has_a_span() {
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    let app = Router::new().route("/spans/quick", get(|| async { "quick" })).route(
        "/spans/slow",
        get(|| async {
            phalanx::yield_now().await;
            StatusCode::IM_A_TEAPOT
        }),
    );
    let app = app.route("/spans/panic", get(|| async { panic!("by intent") as () }));
    within_limit(move || {
        let server = served(app);
        server.get("/spans/quick?secret=1");
        server.get("/spans/slow");
        server.get("/spans/panic");
    });
    let texts: Vec<_> = spans.0.lock().unwrap().iter().map(|(_, text)| text.clone()).collect();
    assert!(texts.iter().all(|text| text.ends_with(" close")), "{texts:?}");
    let texts: Vec<_> = texts.iter().map(|text| text.replace(" close", "")).collect();
    // The call of the service, each poll, and the drop of the future at its end, are inside.
    let expected = |path: &str, polls: &str, status: u16| {
        format!(
            "request method=GET path=\"/spans/{path}\" version=HTTP/1.1 stage=\"requests\"{polls} \
             status={status}"
        )
    };
    let poll = " enter exit";
    let quick = expected("quick", &poll.repeat(3), 200);
    let slow = expected("slow", &poll.repeat(4), 418);
    assert_eq!(texts, [quick, slow, expected("panic", &poll.repeat(3), 500)]);
}
