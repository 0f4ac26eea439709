//! Cross-origin resource sharing (the Fetch standard, 3.2): which pages of others may read answers.

use phalanx_http::{DateLine, Head, Reply, Request, Status};

use crate::config::Cors;
use crate::site::rules::is_value;

/// A host's rule, with its lines made.
pub(crate) struct CrossOrigin {
    /// None for any origin.
    origins: Option<Vec<Box<[u8]>>>,
    /// For each answer that may be read, behind its origin.
    allowed: Vec<u8>,
    /// For the answer to a question whether a request would be allowed.
    preflight: Vec<u8>,
}

/// Answers that differ by origin are to be kept apart by caches, those without an origin too.
const VARY: &[u8] = b"Vary: Origin\r\n";

impl CrossOrigin {
    pub(crate) fn new(cors: &Cors) -> Result<Self, (&'static str, String)> {
        let any = cors.origins.iter().any(|origin| origin == "*");
        if cors.origins.is_empty() {
            return Err(("origins", "there is none; \"*\" is any".into()));
        }
        if any && cors.credentials {
            let what = "credentials are not for any origin \"*\": name the origins";
            return Err(("credentials", what.into()));
        }
        for origin in cors.origins.iter().filter(|origin| *origin != "*") {
            let is_one = origin
                .split_once("://")
                .is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'));
            if !is_one && origin != "null" || is_value(origin).is_err() {
                let expected = "expected an origin such as \"https://app.example.org\" or \"*\"";
                return Err(("origins", format!("found {origin:?}, {expected}")));
            }
        }
        let mut allowed = Vec::new();
        let mut preflight = Vec::new();
        let lines = [
            ("methods", "Access-Control-Allow-Methods", &cors.methods),
            ("headers", "Access-Control-Allow-Headers", &cors.headers),
            ("expose", "Access-Control-Expose-Headers", &cors.expose),
        ];
        for (key, name, values) in lines.into_iter().filter(|(_, _, values)| !values.is_empty()) {
            let value = values.join(", ");
            is_value(&value).map_err(|what| (key, what))?;
            let out = if key == "expose" { &mut allowed } else { &mut preflight };
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let seconds = cors.max_age.as_secs();
        preflight.extend_from_slice(format!("Access-Control-Max-Age: {seconds}\r\n").as_bytes());
        if cors.credentials {
            allowed.extend_from_slice(b"Access-Control-Allow-Credentials: true\r\n");
        }
        let origins = cors.origins.iter().map(|origin| origin.as_bytes().into()).collect();
        Ok(Self { origins: (!any).then_some(origins), allowed, preflight })
    }

    /// The lines of any answer to this request.
    pub(crate) fn lines(&self, request: &Request<'_>, lines: &mut Vec<u8>) {
        let asked = request.values("origin").next();
        match (&self.origins, asked) {
            (None, _) => {
                lines.extend_from_slice(b"Access-Control-Allow-Origin: *\r\n");
                lines.extend_from_slice(&self.allowed);
            }
            (Some(origins), Some(asked)) if origins.iter().any(|origin| **origin == *asked) => {
                lines.extend_from_slice(b"Access-Control-Allow-Origin: ");
                lines.extend_from_slice(asked);
                lines.extend_from_slice(b"\r\n");
                lines.extend_from_slice(&self.allowed);
                lines.extend_from_slice(VARY);
            }
            _ => lines.extend_from_slice(VARY),
        }
    }

    /// Answers a browser's question whether a request would be allowed, if this is one. The lines of
    /// any answer are not among those written.
    pub(crate) fn preflight(
        &self,
        out: &mut Vec<u8>,
        request: &Request<'_>,
        date: &DateLine,
        reply: Reply,
    ) -> bool {
        let asks = |name| request.values(name).next().is_some();
        if !asks("origin") || !asks("access-control-request-method") {
            return false;
        }
        Head::new(out, Status::NoContent, date, reply).block(&self.preflight).finish();
        true
    }
}
