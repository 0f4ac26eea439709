//! Responses to challenges while an order is in progress.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use phalanx_tls::Certificates;
use rcgen::{CertificateParams, CustomExtension, KeyPair};

use crate::plan::ChallengeKind;

/// Path of the requests of HTTP-01 challenges, before the token (RFC 8555 §8.3).
pub const HTTP_PREFIX: &str = "/.well-known/acme-challenge/";

/// Responses to HTTP-01 challenges. Clones share them.
#[derive(Clone, Default)]
pub struct Challenges(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Number of tokens, which is usually zero.
    count: AtomicUsize,
    /// Key authorizations by token: at most one for each name of an order.
    tokens: RwLock<HashMap<String, String>>,
}

impl Challenges {
    /// The body of the response to a request for `path`. `None` if the path does not belong to a challenge in progress.
    #[inline]
    pub fn find(&self, path: &str) -> Option<String> {
        if self.0.count.load(Ordering::Relaxed) == 0 { None } else { self.find_token(path) }
    }

    #[cold]
    fn find_token(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(HTTP_PREFIX)?;
        self.0.tokens.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<String, String>)) {
        let mut tokens = self.0.tokens.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut tokens);
        self.0.count.store(tokens.len(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenges").field("count", &self.0.count).finish_non_exhaustive()
    }
}

/// The responses of one order; dropping it removes them.
pub(crate) struct Responses<'a> {
    challenges: &'a Challenges,
    certificates: &'a Certificates,
    tokens: Vec<String>,
    names: Vec<String>,
}

impl<'a> Responses<'a> {
    pub(crate) fn new(challenges: &'a Challenges, certificates: &'a Certificates) -> Self {
        Self { challenges, certificates, tokens: Vec::new(), names: Vec::new() }
    }

    /// Adds the response to the challenge `token` for `name`. `digest` is the SHA-256 of the key authorization.
    pub(crate) fn add(
        &mut self,
        kind: ChallengeKind,
        (name, token): (&str, &str),
        (authorization, digest): (&str, &[u8]),
    ) -> Result<(), String> {
        match kind {
            ChallengeKind::Http01 => {
                self.challenges.change(|tokens| {
                    tokens.insert(token.to_owned(), authorization.to_owned());
                });
                self.tokens.push(token.to_owned());
            }
            ChallengeKind::TlsAlpn01 => {
                let text = |error: rcgen::Error| error.to_string();
                let key = KeyPair::generate().map_err(text)?;
                let mut params = CertificateParams::new([name.to_owned()]).map_err(text)?;
                params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
                let certificate = params.self_signed(&key).map_err(text)?;
                let (certificate, key) = (certificate.der().to_vec(), key.serialize_der());
                self.certificates.begin_challenge(name, certificate, key)?;
                self.names.push(name.to_owned());
            }
        }
        Ok(())
    }
}

impl Drop for Responses<'_> {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| self.certificates.end_challenge(name));
        if !self.tokens.is_empty() {
            self.challenges.change(|tokens| tokens.retain(|token, _| !self.tokens.contains(token)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn responses_end_with_their_order() {
        let (certificates, _) = Certificates::load(Vec::new(), SystemTime::now()).unwrap();
        let challenges = Challenges::default();
        let mut one = Responses::new(&challenges, &certificates);
        let mut other = Responses::new(&challenges, &certificates);
        one.add(ChallengeKind::Http01, ("a.test", "t1"), ("t1.k", &[1; 32])).unwrap();
        one.add(ChallengeKind::TlsAlpn01, ("a.test", "t2"), ("t2.k", &[2; 32])).unwrap();
        other.add(ChallengeKind::Http01, ("b.test", "t3"), ("t3.k", &[3; 32])).unwrap();
        let find = |token: &str| challenges.find(&format!("{HTTP_PREFIX}{token}"));
        assert_eq!(find("t1").as_deref(), Some("t1.k"));
        assert_eq!((find("t2"), challenges.find("/t1")), (None, None));
        drop(one);
        assert_eq!((find("t1"), find("t3").as_deref()), (None, Some("t3.k")));
    }
}
