//! Cross-origin resource sharing (Fetch standard, 3.2).

use phalanx_http::{FieldBlock, Head, Request};

use crate::config::Cors;
use crate::site::rules::value::is_value;

/// A host's rule with its prepared fields.
pub(crate) struct CrossOrigin {
    /// Allowed origins; `None` allows all.
    origins: Option<Vec<Box<[u8]>>>,
    /// Fields of responses that scripts may read, except `Access-Control-Allow-Origin`.
    allowed: FieldBlock,
    /// Fields of a response to a preflight request.
    preflight: FieldBlock,
}

impl CrossOrigin {
    pub(crate) fn new(cors: &Cors) -> Result<Self, (&'static str, String)> {
        let any = cors.origins.iter().any(|origin| origin == "*");
        if cors.origins.is_empty() {
            return Err(("origins", "expected at least one origin, or \"*\" for all".into()));
        }
        if any && cors.credentials {
            let message = "credentials are not allowed with the origin \"*\"; list the origins";
            return Err(("credentials", message.into()));
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
        let (mut allowed, mut preflight) = (FieldBlock::default(), FieldBlock::default());
        let lines = [
            ("methods", "Access-Control-Allow-Methods", &cors.methods),
            ("headers", "Access-Control-Allow-Headers", &cors.headers),
            ("expose", "Access-Control-Expose-Headers", &cors.expose),
        ];
        for (key, name, values) in lines.into_iter().filter(|(_, _, values)| !values.is_empty()) {
            let value = values.join(", ");
            is_value(&value).map_err(|message| (key, message))?;
            let out = if key == "expose" { &mut allowed } else { &mut preflight };
            out.push(name, value.as_bytes());
        }
        let seconds = cors.max_age.as_secs().to_string();
        preflight.push("Access-Control-Max-Age", seconds.as_bytes());
        if cors.credentials {
            allowed.push("Access-Control-Allow-Credentials", b"true");
        }
        let origins = cors.origins.iter().map(|origin| origin.as_bytes().into()).collect();
        Ok(Self { origins: (!any).then_some(origins), allowed, preflight })
    }

    /// Appends the fields of any response to this request.
    pub(crate) fn fields<'h>(&self, request: &Request<'_>, head: Head<'h>) -> Head<'h> {
        const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";
        let requested = request.values("origin").next();
        // `Vary` is sent even without an origin, so that caches distinguish responses for different origins.
        let vary = |head: Head<'h>| head.field("Vary", b"Origin");
        match (&self.origins, requested) {
            (None, _) => head.field(ALLOW_ORIGIN, b"*").fields(self.allowed.all()),
            (Some(origins), Some(requested))
                if origins.iter().any(|origin| **origin == *requested) =>
            {
                vary(head.field(ALLOW_ORIGIN, requested).fields(self.allowed.all()))
            }
            _ => vary(head),
        }
    }

    /// The fields of the response to a preflight request, in addition to [`fields`](Self::fields). Returns `None`
    /// if this is not one.
    pub(crate) fn preflight(&self, request: &Request<'_>) -> Option<&FieldBlock> {
        is_preflight(request).then_some(&self.preflight)
    }
}

/// Whether this is a preflight request, with which a browser asks which requests a script may send. It never contains a
/// password.
pub(crate) fn is_preflight(request: &Request<'_>) -> bool {
    let asks = |name| request.values(name).next().is_some();
    asks("origin") && asks("access-control-request-method")
}
