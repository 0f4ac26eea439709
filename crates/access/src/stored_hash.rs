//! The hash of a password in a password file.
//!
//! `phalanx passwd` writes Argon2id. The hashes of `mosquitto_passwd` are accepted as well, so that operators can
//! migrate without setting new passwords: PBKDF2 with SHA-512 (`$7$`) and salted SHA-512 (`$6$`). Both can be guessed
//! faster than Argon2id. The keys of SCRAM verify passwords as well.

use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha512};

use crate::memory_pool::Memory;
use crate::scram::keys::Keys;

/// Limits of a hash's parameters (memory in KiB), so that a file cannot keep a broker busy.
const MAX_MEMORY_KIB: u32 = 256 << 10;
const MAX_PASSES: u32 = 16;
const MAX_LANES: u32 = 16;
const MAX_ITERATIONS: u32 = 1_000_000;

/// Length of SHA-512, in bytes.
const SHA512_BYTES: usize = 64;

/// A parsed hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredHash {
    /// `$argon2id$…`, as a PHC string.
    Argon2(Box<PasswordHash>),
    /// `$7$ITERATIONS$SALT$HASH`, of mosquitto 2.0 and later.
    Pbkdf2 { iterations: u32, salt: Vec<u8>, hash: Output },
    /// `$6$SALT$HASH`, of mosquitto before 2.0.
    Sha512 { salt: Vec<u8>, hash: Output },
    /// `SCRAM-SHA-256$…`, in the format of PostgreSQL.
    Scram(Keys),
}

impl StoredHash {
    /// Parses the hash of user `name`.
    ///
    /// # Errors
    /// The reason, and the remedy.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let broken = || {
            format!("the hash of {name:?} is invalid: set the password again with `phalanx passwd`")
        };
        if let Some(rest) = text.strip_prefix("$7$") {
            let mut parts = rest.split('$');
            let iterations = parts.next().and_then(|number| number.parse().ok());
            let iterations = iterations.filter(|number| *number > 0).ok_or_else(broken)?;
            if iterations > MAX_ITERATIONS {
                return Err(format!(
                    "the hash of {name:?} has {iterations} iterations; expected at most {MAX_ITERATIONS}"
                ));
            }
            let (salt, hash) = salt_and_hash(parts).ok_or_else(broken)?;
            return Ok(Self::Pbkdf2 { iterations, salt, hash });
        }
        if let Some(rest) = text.strip_prefix("$6$") {
            let (salt, hash) = salt_and_hash(rest.split('$')).ok_or_else(broken)?;
            return Ok(Self::Sha512 { salt, hash });
        }
        if text.starts_with("SCRAM-") {
            return Keys::parse(text).map(Self::Scram).ok_or_else(broken);
        }
        if !text.starts_with("$argon2id$") {
            return Err(format!(
                "the password of {name:?} is not hashed with Argon2id, nor by mosquitto_passwd (`$7$`, `$6$`), so it \
                 may be easy to guess: set it again with `phalanx passwd`"
            ));
        }
        let hash = PasswordHash::new(text).map_err(|_| broken())?;
        let params = Params::try_from(&hash).map_err(|_| broken())?;
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err(broken());
        }
        let (m, t, p) = (params.m_cost(), params.t_cost(), params.p_cost());
        if m > MAX_MEMORY_KIB || t > MAX_PASSES || p > MAX_LANES {
            return Err(format!(
                "the hash of {name:?} has m={m}, t={t}, p={p}; expected at most m={MAX_MEMORY_KIB}, \
                 t={MAX_PASSES}, p={MAX_LANES}"
            ));
        }
        Ok(Self::Argon2(Box::new(hash)))
    }

    /// A hash of the same cost that practically matches no password.
    pub(crate) fn decoy(&self) -> Self {
        match self {
            Self::Argon2(hash) => {
                let params = Params::try_from(&**hash).unwrap_or_default();
                let (m, t, p) = (params.m_cost(), params.t_cost(), params.p_cost());
                let (salt, hash) = ("A".repeat(22), "A".repeat(43));
                let text = format!("$argon2id$v=19$m={m},t={t},p={p}${salt}${hash}");
                let hash = PasswordHash::new(&text).expect("the text is a hash");
                Self::Argon2(Box::new(hash))
            }
            Self::Pbkdf2 { iterations, .. } => {
                Self::Pbkdf2 { iterations: *iterations, salt: vec![0; 12], hash: zeros() }
            }
            Self::Sha512 { .. } => Self::Sha512 { salt: vec![0; 12], hash: zeros() },
            Self::Scram(Keys { mechanism, iterations, salt, .. }) => {
                Self::Scram(Keys::decoy(*mechanism, *iterations, salt.clone()))
            }
        }
    }

    /// Approximate processor time of a check, in microseconds.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Self::Argon2(hash) => Params::try_from(&**hash)
                .map_or(0, |params| u64::from(params.m_cost()) * u64::from(params.t_cost())),
            Self::Pbkdf2 { iterations, .. } => u64::from(*iterations),
            Self::Sha512 { .. } => 1,
            Self::Scram(keys) => u64::from(keys.iterations.get()),
        }
    }

    /// Whether the hash is weaker than those that `phalanx passwd` writes.
    pub(crate) fn is_weak(&self) -> bool {
        matches!(self, Self::Pbkdf2 { .. } | Self::Sha512 { .. })
    }

    /// Whether the hash belongs to this password; `None` if the hash is invalid.
    pub(crate) fn is_of(&self, password: &[u8], memory: &mut Memory) -> Option<bool> {
        let (found, expected) = match self {
            Self::Argon2(hash) => return argon2(hash, password, memory),
            Self::Pbkdf2 { iterations, salt, hash } => {
                let mut out = [0; SHA512_BYTES];
                pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, *iterations, &mut out);
                (out, hash)
            }
            Self::Sha512 { salt, hash } => {
                let mut digest = Sha512::new();
                digest.update(password);
                digest.update(salt);
                (digest.finalize().into(), hash)
            }
            Self::Scram(keys) => return Some(keys.is_of(password)),
        };
        // Constant-time comparison.
        Some(Output::new(&found).ok()? == *expected)
    }
}

fn argon2(hash: &PasswordHash, password: &[u8], memory: &mut Memory) -> Option<bool> {
    let params = Params::try_from(hash).ok()?;
    let version = hash.version.map(Version::try_from).transpose().ok()?.unwrap_or_default();
    let (salt, expected) = (hash.salt.as_ref()?, hash.hash.as_ref()?);
    let (blocks, mut out) = (memory.blocks(params.block_count()), [0; Output::MAX_LENGTH]);
    let out = out.get_mut(..expected.len())?;
    let argon = Argon2::new(Algorithm::Argon2id, version, params);
    argon.hash_password_into_with_memory(password, salt, out, blocks).ok()?;
    // Constant-time comparison.
    Some(Output::new(out).ok()? == *expected)
}

/// The last two parts of a hash of mosquitto, in Base64.
fn salt_and_hash<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<(Vec<u8>, Output)> {
    let (salt, hash) = (parts.next()?, parts.next()?);
    let salt = Base64::decode_vec(salt).ok().filter(|salt| !salt.is_empty())?;
    let hash = Base64::decode_vec(hash).ok().filter(|hash| hash.len() == SHA512_BYTES)?;
    parts.next().is_none().then_some((salt, Output::new(&hash).ok()?))
}

fn zeros() -> Output {
    Output::new(&[0; SHA512_BYTES]).expect("SHA-512 has an allowed length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StoredHash {
        StoredHash::parse("eve", text).unwrap()
    }

    /// Computed with Python's hashlib, in the formats that mosquitto_passwd writes. The password is "apple".
    const PBKDF2: &str = "$7$101$AAECAwQFBgcICQoL$\
                          MXsjLC6lzVA2S8FKfg98+19trbQ+/1is2VPKiB3b5jB9C0saOOds+/MkQ2SJekmWezYvQs74UcvfK/otAa7Bug==";
    const SHA512: &str = "$6$AAECAwQFBgcICQoL$\
                          gqky2oGnkP2AndGycW6dMMAb8Q2jatD5jj7Lsn6notjjKmHVSXtFkYAfEXME4nk2KhjPnkKR57rLPGT4KEK+HA==";

    #[test]
    fn hashes_of_mosquitto() {
        for text in [PBKDF2, SHA512] {
            let (hash, mut memory) = (parse(text), Memory::default());
            assert!(hash.is_weak());
            assert_eq!(hash.is_of(b"apple", &mut memory), Some(true), "{text}");
            for invalid in ["", "Apple", "apple "] {
                assert_eq!(hash.is_of(invalid.as_bytes(), &mut memory), Some(false), "{text}");
            }
            let decoy = hash.decoy();
            assert_eq!(decoy.cost(), hash.cost());
            assert_eq!(decoy.is_of(b"apple", &mut memory), Some(false));
        }
    }

    #[test]
    fn invalid_hashes_of_mosquitto() {
        let zero = PBKDF2.replace("$101$", "$0$");
        let costly = PBKDF2.replace("$101$", "$1000001$");
        let (long, short) = (format!("{SHA512}$"), SHA512.replace("$6$", "$7$"));
        for text in ["$6$", "$6$a$b", "$7$101$", "$6$$", &zero, &costly, &long, &short] {
            assert!(StoredHash::parse("eve", text).is_err(), "{text}");
        }
    }
}
