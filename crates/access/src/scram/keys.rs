//! Stored keys of a password (RFC 5802, section 3). Neither key can be used to log in.

use std::num::NonZeroU32;

use argon2::password_hash::phc::Output;
use base64ct::{Base64, Encoding};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Iterations that clients compute. RFC 7677 requires the minimum.
pub(crate) const MIN_ITERATIONS: u32 = 4096;
pub(crate) const MAX_ITERATIONS: u32 = 1_000_000;

/// Bytes of a new salt, and maximum bytes of any salt.
const SALT_BYTES: usize = 16;
const MAX_SALT_BYTES: usize = 64;

/// A mechanism: the hash function that client and server use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-256 (RFC 7677).
    Sha256,
    /// SCRAM-SHA-512, which has the same messages.
    Sha512,
}

impl Mechanism {
    pub(crate) const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The registered name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The mechanism of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    pub(crate) fn hash(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    pub(crate) fn hmac(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// The keys of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) mechanism: Mechanism,
    pub(crate) iterations: NonZeroU32,
    pub(crate) salt: Vec<u8>,
    /// `StoredKey`, which verifies the client's proof.
    stored: Output,
    /// `ServerKey`, by which the server proves that it has these keys.
    pub(crate) server: Vec<u8>,
}

impl Keys {
    /// The keys of a new password, with a random salt.
    ///
    /// # Errors
    /// If the iterations are out of bounds, or the system returns no random numbers.
    pub(crate) fn new(
        mechanism: Mechanism,
        iterations: u32,
        password: &[u8],
    ) -> Result<Self, String> {
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err(format!(
                "found {iterations} iterations, expected {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            ));
        }
        let iterations = NonZeroU32::new(iterations).ok_or("the iterations are 0")?;
        let mut salt = vec![0; SALT_BYTES];
        let random = SystemRandom::new();
        random.fill(&mut salt).map_err(|_| "the system returned no random numbers")?;
        let (stored, server) = derive(mechanism, (iterations, &salt), password);
        Ok(Self { mechanism, iterations, salt, stored, server })
    }

    /// Parses the format of PostgreSQL: `SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER`. `None` for another text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('$');
        let mechanism = Mechanism::from_name(parts.next()?)?;
        let (iterations, salt) = parts.next()?.split_once(':')?;
        let (stored, server) = parts.next()?.split_once(':')?;
        let iterations: NonZeroU32 = iterations.parse().ok()?;
        let decode = |text| Base64::decode_vec(text).ok();
        let is_key = |key: &Vec<u8>| key.len() == mechanism.hash().output_len();
        let salt = decode(salt).filter(|salt| (1..=MAX_SALT_BYTES).contains(&salt.len()))?;
        let (stored, server) = (decode(stored).filter(is_key)?, decode(server).filter(is_key)?);
        let is_valid = parts.next().is_none() && iterations.get() <= MAX_ITERATIONS;
        let stored = Output::new(&stored).ok()?;
        is_valid.then_some(Self { mechanism, iterations, salt, stored, server })
    }

    /// The text that [`parse`](Self::parse) reads.
    pub(crate) fn print(&self) -> String {
        let encode = |bytes: &[u8]| Base64::encode_string(bytes);
        let (salt, stored, server) =
            (encode(&self.salt), encode(self.stored.as_bytes()), encode(&self.server));
        format!("{}${}:{salt}${stored}:{server}", self.mechanism.name(), self.iterations)
    }

    /// Keys that match no password.
    pub(crate) fn decoy(mechanism: Mechanism, iterations: NonZeroU32, salt: Vec<u8>) -> Self {
        let server = vec![0; mechanism.hash().output_len()];
        let stored = Output::new(&server).expect("a hash has an allowed length");
        Self { mechanism, iterations, salt, stored, server }
    }

    /// Whether these are the keys of this password.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        let (stored, _) = derive(self.mechanism, (self.iterations, &self.salt), password);
        // Constant-time comparison.
        stored == self.stored
    }

    /// The client key that a proof reveals, and whether it is the right one. `proof` is the key XOR its signature of
    /// the exchange.
    pub(crate) fn verify_proof(&self, proof: &[u8], exchange: &[u8]) -> (Vec<u8>, bool) {
        let signature = self.mechanism.hmac(self.stored.as_bytes(), exchange);
        let key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let found = Output::new(digest::digest(self.mechanism.hash(), &key).as_ref());
        // Constant-time comparison.
        let is_valid = found.is_ok_and(|found| found == self.stored);
        (key, is_valid)
    }
}

/// `StoredKey` and `ServerKey`. Takes as long as the iterations.
fn derive(
    mechanism: Mechanism,
    (iterations, salt): (NonZeroU32, &[u8]),
    password: &[u8],
) -> (Output, Vec<u8>) {
    let mut salted = vec![0; mechanism.hash().output_len()];
    pbkdf2::derive(mechanism.pbkdf2(), iterations, salt, &prepare(password), &mut salted);
    let client = mechanism.hmac(&salted, b"Client Key");
    let stored = digest::digest(mechanism.hash(), client.as_ref());
    let server = mechanism.hmac(&salted, b"Server Key").as_ref().to_vec();
    (Output::new(stored.as_ref()).expect("a hash has an allowed length"), server)
}

/// The password as clients prepare it (SASLprep, RFC 4013). If SASLprep prohibits a text, clients use it unchanged, as
/// PostgreSQL's do.
fn prepare(password: &[u8]) -> Vec<u8> {
    let text = str::from_utf8(password).ok().and_then(|text| stringprep::saslprep(text).ok());
    text.map_or_else(|| password.to_vec(), |text| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_text() {
        for mechanism in Mechanism::ALL {
            let keys = Keys::new(mechanism, MIN_ITERATIONS, "p\u{e4}sswort".as_bytes()).unwrap();
            assert_eq!(Keys::parse(&keys.print()).as_ref(), Some(&keys));
            // The same characters, composed differently.
            assert!(keys.is_of("pa\u{308}sswort".as_bytes()) && !keys.is_of(b"passwort"));
        }
        let text = Keys::new(Mechanism::Sha256, MIN_ITERATIONS, b"x").unwrap().print();
        for invalid in [
            text.replace("4096", "0"),
            text.replace("4096", "1000001"),
            text.replace("-256", "-512"),
            text.replace("SCRAM-SHA-256", "SCRAM-SHA-1"),
            format!("{text}$"),
            text[..text.len() - 4].to_owned(),
            text.replace(':', "$"),
        ] {
            assert_eq!(Keys::parse(&invalid), None, "{invalid}");
        }
        assert!(Keys::new(Mechanism::Sha256, MIN_ITERATIONS - 1, b"x").is_err());
    }
}
