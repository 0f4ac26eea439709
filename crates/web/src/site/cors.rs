//! Cross-origin resource sharing (Fetch standard, 3.2).

use phalanx_http::{DateLine, Head, Reply, Request, Status};

use crate::config::Cors;
use crate::site::rules::is_value;

/// A host's rule with its precomputed lines.
pub(crate) struct CrossOrigin {
    /// Allowed origins; `None` allows all.
    origins: Option<Vec<Box<[u8]>>>,
    /// Lines of responses that scripts may read, which follow the origin.
    allowed: Vec<u8>,
    /// Lines of a response to a preflight request.
    preflight: Vec<u8>,
}

/// Caches must keep responses for different origins apart, also those for requests without an origin.
const VARY: &[u8] = b"Vary: Origin\r\n";

impl CrossOrigin {
    pub(crate) fn new(cors: &Cors) -> Result<Self, (&'static str, String)> {
        let any = cors.origins.iter().any(|origin| origin == "*");
        if cors.origins.is_empty() {
            return Err(("origins", "expected at least one origin, or \"*\" for all".into()));
        }
        if any && cors.credentials {
            let what = "credentials are not allowed with the origin \"*\"; list the origins";
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

    /// Appends the lines of any response to this request.
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

    /// Responds to a preflight request. Returns false if this is not one. The lines of [`lines`](Self::lines)
    /// are not included.
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
