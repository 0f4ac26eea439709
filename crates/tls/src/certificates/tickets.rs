//! Keys of session tickets.
//!
//! A ticket contains the state of a session, encrypted with a key of the server (RFC 8446 §4.6.1, RFC 5077). Unless there
//! is a secret, the keys are random, and all sessions end with the process. From a secret, a key is derived for each
//! period of six hours, so nothing is stored, and servers with the same secret accept each other's tickets.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use phalanx::time::time_of_day;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use crate::certificates::certificate::CertificateError;

/// Time for which a key encrypts tickets. It decrypts them for twice this time.
const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);
/// Size of a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 32..=4096;
/// Bytes of a ticket that contain the number of its period.
const NUMBER_BYTES: usize = size_of::<u64>();

/// A secret from which keys are derived. Clones share it.
#[derive(Clone, Debug)]
pub struct TicketSecret(Arc<Prk>);

/// The keys of a server's tickets.
#[derive(Debug)]
pub struct Tickets {
    /// `None` if the system provides no random numbers; then the last few hundred sessions are stored in memory.
    random: Option<Arc<dyn ProducesTickets>>,
    secret: RwLock<Option<TicketSecret>>,
}

impl TicketSecret {
    /// Reads a secret: a file of 32 to 4096 bytes. May block.
    ///
    /// # Errors
    /// If the file cannot be read, is shorter or longer.
    pub fn load(path: &Path) -> Result<Self, CertificateError> {
        let mut secret = Vec::new();
        let limit = *SECRET_BYTES.end() as u64 + 1;
        let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut secret));
        read.map_err(|source| CertificateError::Read { path: path.into(), source })?;
        match SECRET_BYTES.contains(&secret.len()) {
            true => Ok(Self::new(&secret)),
            false => Err(CertificateError::TicketSecret { path: path.into() }),
        }
    }

    fn new(secret: &[u8]) -> Self {
        Self(Arc::new(Salt::new(HKDF_SHA256, b"phalanx session tickets").extract(secret)))
    }

    /// The key of a period.
    fn key(&self, number: [u8; NUMBER_BYTES]) -> Option<LessSafeKey> {
        let info = [&number[..]];
        let key = self.0.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }

    /// A ticket that is issued in this period: the number of the period, the nonce, and the encrypted state.
    fn seal(&self, period: u64, state: &[u8]) -> Option<Vec<u8>> {
        let number = period.to_be_bytes();
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = state.to_vec();
        let bound = (Nonce::assume_unique_for_key(nonce), Aad::from(number));
        self.key(number)?.seal_in_place_append_tag(bound.0, bound.1, &mut sealed).ok()?;
        Some([&number[..], &nonce[..], &sealed].concat())
    }

    /// The state in a ticket of this period or the one before. The clock of another server may be ahead, so the next
    /// period is accepted, too.
    fn open(&self, period: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        let (number, rest) = ticket.split_first_chunk::<NUMBER_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        if u64::from_be_bytes(*number).abs_diff(period) > 1 {
            return None;
        }
        let mut state = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length =
            self.key(*number)?.open_in_place(nonce, Aad::from(*number), &mut state).ok()?;
        let length = length.len();
        state.truncate(length);
        Some(state)
    }
}

impl Tickets {
    /// Random keys.
    pub(crate) fn new() -> Self {
        Self { random: rustls::crypto::ring::Ticketer::new().ok(), secret: RwLock::default() }
    }

    /// Derives the keys from this secret, or uses random ones if there is none. Earlier tickets are no longer accepted.
    pub fn use_secret(&self, secret: Option<TicketSecret>) {
        *self.secret.write().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    fn secret(&self) -> Option<TicketSecret> {
        self.secret.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.random.is_some() || self.secret().is_some()
    }

    fn lifetime(&self) -> u32 {
        PERIOD.as_secs() as u32
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        match self.secret() {
            Some(secret) => secret.seal(period(), state),
            None => self.random.as_ref()?.encrypt(state),
        }
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        match self.secret() {
            Some(secret) => secret.open(period(), ticket),
            None => self.random.as_ref()?.decrypt(ticket),
        }
    }
}

/// The number of the current period.
fn period() -> u64 {
    time_of_day().as_secs() / PERIOD.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_accepted_for_two_periods() {
        let secret = TicketSecret::new(&[7; 32]);
        let ticket = secret.seal(10, b"state").unwrap();
        assert_ne!(ticket, secret.seal(10, b"state").unwrap(), "nonces differ");
        for (period, accepted) in [(8, false), (9, true), (10, true), (11, true), (12, false)] {
            let state = secret.open(period, &ticket);
            assert_eq!(state.as_deref(), accepted.then_some(&b"state"[..]), "{period}");
        }
        let same = TicketSecret::new(&[7; 32]);
        assert_eq!(same.open(10, &ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(TicketSecret::new(&[8; 32]).open(10, &ticket), None);
    }

    #[test]
    fn altered_tickets_are_rejected() {
        let secret = TicketSecret::new(&[7; 32]);
        let ticket = secret.seal(10, b"state").unwrap();
        for place in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[place] ^= 1;
            assert_eq!(secret.open(10, &altered), None, "{place}");
            assert_eq!(secret.open(10, &ticket[..place]), None, "{place}");
        }
    }

    #[test]
    fn secrets_have_32_to_4096_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        assert!(TicketSecret::load(&file).unwrap_err().to_string().contains("cannot read"));
        for (bytes, good) in [(0, false), (31, false), (32, true), (4096, true), (4097, false)] {
            std::fs::write(&file, vec![1; bytes]).unwrap();
            let loaded = TicketSecret::load(&file).map_err(|error| error.to_string());
            assert_eq!(loaded.is_ok(), good, "{bytes}: {loaded:?}");
        }
    }
}
