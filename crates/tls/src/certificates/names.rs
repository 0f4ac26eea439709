//! Selection of a certificate by server name (SNI, RFC 6066 §3). The handshake precedes any request with a host.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

/// Certificates by name. Immutable: a reload creates another.
#[derive(Debug, Default)]
pub(crate) struct Names {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// Keyed by the part after `*.`.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    default: Option<Arc<CertifiedKey>>,
}

impl Names {
    /// Adds a host's certificate. A host without names becomes the default; otherwise the first host is the
    /// default.
    pub(crate) fn add(&mut self, names: &[String], certificate: &Arc<CertifiedKey>) {
        if names.is_empty() || self.default.is_none() {
            self.default = Some(certificate.clone());
        }
        for name in names {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix("*.") {
                Some(rest) => self.wildcard.insert(rest.to_owned(), certificate.clone()),
                None => self.exact.insert(name, certificate.clone()),
            };
        }
    }

    /// The certificate for a client that requests `name`, or none. For an unknown name it is the default certificate,
    /// because the client reports a mismatch more clearly than the server could.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let Some(name) = name else { return self.default.clone() };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        // Matches at any depth, the longest first, like the selection of hosts (`site/names.rs`).
        let rests = std::iter::successors(Some(&*name), |name| Some(name.split_once('.')?.1));
        let wildcard = || rests.skip(1).find_map(|rest| self.wildcard.get(rest));
        self.exact.get(&name).or_else(wildcard).or(self.default.as_ref()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use rustls::SignatureAlgorithm;
    use rustls::SignatureScheme;
    use rustls::sign::{Signer, SigningKey};

    use super::*;

    /// A key that cannot sign; the test compares addresses.
    #[derive(Debug)]
    struct NoKey;

    impl SigningKey for NoKey {
        fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
            None
        }

        fn algorithm(&self) -> SignatureAlgorithm {
            SignatureAlgorithm::ED25519
        }
    }

    fn names(hosts: &[&[&str]]) -> (Names, Vec<Arc<CertifiedKey>>) {
        let mut names = Names::default();
        let certificates = hosts.iter().map(|host| {
            let certificate = Arc::new(CertifiedKey::new(Vec::new(), Arc::new(NoKey)));
            let host: Vec<_> = host.iter().map(|name| (*name).to_owned()).collect();
            names.add(&host, &certificate);
            certificate
        });
        let certificates = certificates.collect();
        (names, certificates)
    }

    fn find(names: &Names, certificates: &[Arc<CertifiedKey>], name: Option<&str>) -> usize {
        let certificate = names.find(name).expect("there is a default");
        certificates.iter().position(|one| Arc::ptr_eq(one, &certificate)).expect("one of them")
    }

    #[test]
    fn the_most_specific_name_wins() {
        let hosts: [&[&str]; 4] = [
            &["a.example"],
            &[],
            &["*.a.example", "B.example"],
            &["x.a.example", "*.deep.a.example"],
        ];
        let (names, certificates) = names(&hosts);
        let table: [(Option<&str>, usize); 11] = [
            (None, 1),
            (Some("a.example"), 0),
            (Some("A.Example"), 0),
            (Some("a.example."), 0),
            (Some("b.example"), 2),
            (Some("y.a.example"), 2),
            (Some("x.a.example"), 3),
            (Some("z.y.a.example"), 2),
            (Some("z.deep.a.example"), 3),
            (Some("example"), 1),
            (Some("unknown"), 1),
        ];
        for (name, wanted) in table {
            assert_eq!(find(&names, &certificates, name), wanted, "{name:?}");
        }
    }

    #[test]
    fn the_first_host_is_the_fallback_default() {
        let (names, certificates) = names(&[&["a"], &["b"]]);
        assert_eq!(find(&names, &certificates, None), 0);
        assert!(Names::default().find(Some("a")).is_none());
    }
}
