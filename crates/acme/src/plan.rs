//! The authority, the account, and the certificates to keep.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::schedule::renewal;
use crate::storage::{Storage, name_set};
use crate::transport::Transport;

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A way to prove control of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// The authority requests a file by HTTP at port 80 (RFC 8555 §8.3).
    Http01,
    /// The authority performs a TLS handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

impl ChallengeKind {
    /// Its identifier.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// An account at the authority outside of ACME (RFC 8555 §7.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key identifier.
    pub id: String,
    /// File with the MAC key in base64url.
    pub key: PathBuf,
}

impl ExternalAccount {
    /// The MAC key.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let path = self.key.display();
        let text = fs::read_to_string(&self.key)
            .map_err(|error| format!("cannot read {path}: {error}"))?;
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
        decoded.map_err(|error| format!("{path} does not contain a key in base64url: {error}"))
    }
}

/// The certificates to maintain, and their authority. Creating an account accepts the authority's terms of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// URL of the authority's directory.
    pub directory: String,
    /// Contacts of the account, such as `mailto:admin@example.org`.
    pub contact: Vec<String>,
    /// An existing account at the authority, to which the ACME account is bound.
    pub external: Option<ExternalAccount>,
    /// PEM file of the authorities that sign the certificate of the directory; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Folder of accounts and certificates.
    pub storage: PathBuf,
    /// Ways to prove control of names. After an attempt that the authority refused or did not complete, the next
    /// attempt uses the next way.
    pub challenges: Vec<ChallengeKind>,
    /// Names of each certificate.
    pub certificates: Vec<Vec<String>>,
}

impl Plan {
    /// Whether authority, account and storage are the same as those of `other`.
    pub(crate) fn has_account_of(&self, other: &Self) -> bool {
        let account = |plan: &Self| {
            let Self { directory, external, ca, storage, .. } = plan.clone();
            (directory, external, ca, storage)
        };
        account(self) == account(other)
    }

    /// Whether a certificate has these names, which are a `name_set`.
    pub(crate) fn has_names(&self, names: &[String]) -> bool {
        self.certificates.iter().any(|other| name_set(other) == names)
    }

    /// File of the certificate for `names`, with its key.
    pub fn file(&self, names: &[String]) -> PathBuf {
        self.folder().certificate(names)
    }

    pub(crate) fn folder(&self) -> Storage {
        Storage::new(&self.storage, &self.directory)
    }

    /// Errors about files that can be found without a connection to the authority. Opens files but changes nothing.
    pub fn unavailable(&self) -> Vec<String> {
        let external = self.external.as_ref().and_then(|external| external.read().err());
        let ca_error = Transport::new(self.ca.as_deref()).err();
        let storage = self.folder().check().err();
        [external, ca_error, storage].into_iter().flatten().collect()
    }

    /// The next step for each certificate, one line each.
    pub fn steps(&self, now: SystemTime) -> Vec<String> {
        let challenges: Vec<_> = self.challenges.iter().map(|kind| kind.name()).collect();
        let challenges = challenges.join(" or ");
        let step = |names: &Vec<String>| {
            let (file, all) = (self.file(names), names.join(", "));
            let at = format!("{} with {challenges}", self.directory);
            match phalanx_tls::validity(&file, &file, names) {
                None => format!("acme: {all}: no certificate yet; orders one at {at}"),
                Some(validity) if !validity.is_for_all => {
                    let file = file.display();
                    format!(
                        "acme: {all}: the certificate in {file} does not cover all names; orders one at {at}"
                    )
                }
                Some(validity) => match renewal(&validity).duration_since(now) {
                    Ok(left) => {
                        let days = left.as_secs() / 86_400;
                        let file = file.display();
                        format!(
                            "acme: {all}: renews the certificate in {file} in {days} days at {at}, or when the authority asks for it"
                        )
                    }
                    Err(_) => format!("acme: {all}: the certificate is due; renews it at {at}"),
                },
            }
        };
        let mut steps: Vec<_> = self.certificates.iter().map(step).collect();
        if rustix::process::geteuid().is_root() {
            let folder = self.storage.display();
            steps.push(format!(
                "acme: this check runs as root, who may write {folder}; run it as the user of the service to check its \
                 permissions"
            ));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_external_accounts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let external = ExternalAccount { id: "a".into(), key: file.path().into() };
        for (text, expected) in
            [("AQID\n", Ok(vec![1, 2, 3])), ("AQI=", Ok(vec![1, 2])), ("a+/b", Err(()))]
        {
            fs::write(file.path(), text).unwrap();
            assert_eq!(external.read().map_err(drop), expected, "{text}");
        }
    }
}
