//! TLS for servers and their outgoing connections: certificates, handshakes and encrypted streams.
//!
//! | folder or file | contents |
//! |---|---|
//! | `certificates` | certificates of a server and their reload, keys of session tickets, client certificates |
//! | `stream` | encrypted streams |
//! | `handshake.rs` | the handshake stage |
//! | `outgoing` | connections to other servers |
//!
//! The caller chooses the protocols offered over ALPN, and can query the negotiated one.

#![forbid(unsafe_code)]

mod certificates;
mod handshake;
mod outgoing;
mod stream;

pub use certificates::certificate::{CertificateError, Validity, check, validity, warnings};
pub use certificates::clients::Clients;
pub use certificates::tickets::{TicketSecret, Tickets};
pub use certificates::{ACME_TLS, Certificates, Replacement, Source};
pub use handshake::{HandshakeError, Profile, TlsStages};
pub use outgoing::authority::Authority;
pub use outgoing::backoff::Backoff;
pub use outgoing::connector::{Connector, is_server_name};
pub use outgoing::dial::dial;
pub use stream::polled::PolledTls;
pub use stream::session::{Failed, Reason, TlsStream};
pub use stream::wire::Wire;
