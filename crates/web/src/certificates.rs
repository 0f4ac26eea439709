//! The hosts' certificates.

use std::sync::Arc;
use std::time::SystemTime;

use phalanx_tls::{CertificateError, Certificates, Source};

use crate::config::{Config, Listen, Tls};

/// Paths of the hosts' certificates.
pub(crate) fn sources(config: &Config) -> Vec<Source> {
    let hosts = config.hosts.iter().filter_map(|host| Some((host, host.tls.clone()?)));
    let sources = hosts.map(|(host, Tls { certificate, key })| Source {
        names: host.server_names.clone(),
        certificate,
        key,
    });
    sources.collect()
}

/// Loads the hosts' certificates if any address uses TLS. Also returns warnings about them.
pub(crate) fn load(
    config: &Config,
) -> Result<(Option<Arc<Certificates>>, Vec<String>), CertificateError> {
    if !config.listen.iter().any(Listen::is_tls) {
        return Ok((None, Vec::new()));
    }
    let (certificates, warnings) = Certificates::load(sources(config), SystemTime::now())?;
    Ok((Some(Arc::new(certificates)), warnings))
}
