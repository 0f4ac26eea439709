//! HTTP as a client of the load speaks it: requests, responses, HTTP/2, TLS.

pub(super) mod http2;
pub(super) mod protocol;
pub(super) mod requests;
pub(super) mod responses;
pub(crate) mod tls;
pub(super) mod url;
pub(super) mod wire;
