//! The hosts' certificates.

use std::sync::Arc;
use std::time::SystemTime;

use phalanx_tls::{CertificateError, Certificates, Source, TicketSecret};

use crate::config::{Config, Listen, Tls};

/// Paths of the hosts' certificates.
pub(super) fn sources(config: &Config) -> Vec<Source> {
    let plan = config.plan();
    let sources = config.hosts.iter().filter_map(|host| {
        let names = host.server_names.clone();
        match (&host.tls, &plan) {
            (Some(Tls { certificate, key }), _) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                Some(Source { names, certificate, key, is_awaited: false })
            }
            (None, Some(plan)) if config.is_automatic(host) => {
                let file = plan.file(&names);
                Some(Source { names, certificate: file.clone(), key: file, is_awaited: true })
            }
            _ => None,
        }
    });
    sources.collect()
}

/// Loads the hosts' certificates if any address uses TLS. Also returns warnings about them.
pub(super) fn load(
    config: &Config,
) -> Result<(Option<Arc<Certificates>>, Vec<String>), CertificateError> {
    if !config.listen.iter().any(Listen::is_tls) {
        return Ok((None, Vec::new()));
    }
    let (certificates, warnings) = Certificates::load(sources(config), SystemTime::now())?;
    certificates.tickets().use_secret(ticket_secret(config)?);
    Ok((Some(Arc::new(certificates)), warnings))
}

/// The secret of session tickets, if there is one.
pub(super) fn ticket_secret(config: &Config) -> Result<Option<TicketSecret>, CertificateError> {
    config.ticket_key.as_deref().map(TicketSecret::load).transpose()
}
