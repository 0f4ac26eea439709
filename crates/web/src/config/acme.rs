//! Certificates from an ACME authority.

use std::path::PathBuf;

use phalanx_acme::{ChallengeKind, ExternalAccount, LETS_ENCRYPT, Plan};

use crate::config::{Config, HostConfig};

/// The authority that issues the certificates of hosts without their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// URL of the authority's directory.
    pub directory: String,
    /// Whether the operator accepts the authority's terms of service.
    pub accept_terms: bool,
    /// Contacts of the account: e-mail addresses or URLs.
    pub contact: Vec<String>,
    /// Folder of the account and the certificates.
    pub storage: PathBuf,
    /// PEM file of the authorities of the directory; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// How the control of names is proven.
    pub challenge: AcmeChallenge,
    /// Key identifier of an account at the authority.
    pub external_account: Option<String>,
    /// File with the MAC key of that account, in base64url.
    pub external_key: Option<PathBuf>,
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            directory: LETS_ENCRYPT.to_owned(),
            accept_terms: false,
            contact: Vec::new(),
            storage: PathBuf::new(),
            ca: None,
            challenge: AcmeChallenge::default(),
            external_account: None,
            external_key: None,
        }
    }
}

/// A way to prove the control of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// HTTP-01 if an address is without TLS; TLS-ALPN-01 otherwise, and after a failure.
    #[default]
    Auto,
    /// A request at port 80.
    Http01,
    /// A handshake at port 443.
    TlsAlpn01,
}

impl Config {
    /// Whether the host's certificate comes from the authority.
    pub(crate) fn is_automatic(&self, host: &HostConfig) -> bool {
        self.acme.is_some() && host.acme && host.tls.is_none() && !host.server_names.is_empty()
    }

    /// The certificates to keep; `None` without an authority.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let acme = self.acme.as_ref()?;
        let has_plain = self.listen.iter().any(|listen| !listen.is_tls());
        let (http, tls) = (ChallengeKind::Http01, ChallengeKind::TlsAlpn01);
        let hosts = self.hosts.iter().filter(|host| self.is_automatic(host));
        let contact = acme.contact.iter().map(|contact| match contact.contains(':') {
            true => contact.clone(),
            false => format!("mailto:{contact}"),
        });
        let external = acme.external_account.clone().zip(acme.external_key.clone());
        Some(Plan {
            directory: acme.directory.clone(),
            contact: contact.collect(),
            external: external.map(|(id, key)| ExternalAccount { id, key }),
            ca: acme.ca.clone(),
            storage: acme.storage.clone(),
            challenges: match acme.challenge {
                AcmeChallenge::Auto if has_plain => vec![http, tls],
                AcmeChallenge::Auto | AcmeChallenge::TlsAlpn01 => vec![tls],
                AcmeChallenge::Http01 => vec![http],
            },
            certificates: hosts.map(|host| host.server_names.clone()).collect(),
        })
    }
}
