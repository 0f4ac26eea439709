//! Certificates from an ACME authority.

use std::path::PathBuf;

use phalanx_acme::{ChallengeKind, ExternalAccount, LETS_ENCRYPT, Plan};
use phalanx_config::settings;

use crate::config::values::AcmeChallenges;
use crate::config::{Config, HostConfig};

settings! {
    /// The authority that issues certificates for hosts without a configured certificate.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Acme {
        /// URL of the authority's directory.
        pub directory: String = LETS_ENCRYPT.to_owned()
            => key("directory", "URL of the authority's directory; the default is Let's Encrypt");
        /// Whether the operator accepts the authority's terms of service.
        pub accept_terms: bool
            => key("accept-terms", "confirms that you accept the authority's terms of service; required");
        /// Contacts of the account: e-mail addresses or URLs.
        pub contact: Vec<String>
            => key("contact", "e-mail addresses at which the authority can reach you");
        /// Folder of the account and the certificates.
        pub storage: PathBuf
            => required("storage",
                "folder for the account, the certificates and their keys; created if it does not exist");
        /// PEM file of the authorities that sign the certificate of the directory's server; `None` for those of the
        /// system.
        pub ca: Option<PathBuf>
            => key("ca",
                "PEM file of the authorities that sign the certificate of the directory's server; false for those of \
                 the system");
        /// How to prove control of the names.
        pub challenge: AcmeChallenge
            => key_as::<AcmeChallenges>("challenge",
                "how to prove control of the names: http-01 (port 80), tls-alpn-01 (port 443), or auto: http-01 if \
                 there is an address without TLS at port 80 that other machines can reach, otherwise tls-alpn-01; \
                 after a failure, auto tries the other one if other machines can reach an address without TLS");
        /// Key identifier of an account at the authority.
        pub external_account: Option<String>
            => key("external-account", "key identifier of your account at the authority, if it requires one");
        /// File with the MAC key of that account, in base64url.
        pub external_key: Option<PathBuf>
            => key("external-key", "file with the MAC key of that account, in base64url");
    }
}

/// A way to prove control of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// HTTP-01 if there is an address without TLS at port 80, otherwise TLS-ALPN-01. After a failure, the other one is
    /// tried if there is an address without TLS, to which port 80 may be mapped. Loopback addresses do not count.
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
        // A container may map port 80 to another port.
        let plain =
            self.listen.iter().filter(|listen| !listen.is_tls() && !listen.address.is_local());
        let plain: Vec<_> = plain.filter_map(|listen| listen.address.port()).collect();
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
                AcmeChallenge::Auto if plain.contains(&80) => vec![http, tls],
                AcmeChallenge::Auto if !plain.is_empty() => vec![tls, http],
                AcmeChallenge::Auto | AcmeChallenge::TlsAlpn01 => vec![tls],
                AcmeChallenge::Http01 => vec![http],
            },
            certificates: hosts.map(|host| host.server_names.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_that_an_authority_can_check() {
        use ChallengeKind::{Http01, TlsAlpn01};
        for (listen, wanted) in [
            (&["https://0.0.0.0:443", "http://0.0.0.0:80"][..], &[Http01, TlsAlpn01][..]),
            (&["https://[::]:443", "redirect-https://[::]:80"], &[Http01, TlsAlpn01]),
            (&["https://0.0.0.0:443"], &[TlsAlpn01]),
            (&["https://0.0.0.0:443", "http://127.0.0.1:80"], &[TlsAlpn01]),
            (&["https://0.0.0.0:443", "unix:/run/web"], &[TlsAlpn01]),
            (&["https://0.0.0.0:8443", "http://0.0.0.0:8080"], &[TlsAlpn01, Http01]),
        ] {
            let listen = listen.iter().map(|text| text.parse().unwrap()).collect();
            let config = Config { listen, acme: Some(Acme::default()), ..Config::new() };
            assert_eq!(config.plan().unwrap().challenges, wanted, "{:?}", config.listen);
        }
    }
}
