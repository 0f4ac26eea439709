//! Users and their password hashes: lines of the form `name:hash`, with an Argon2id hash as a PHC string.
//!
//! A stolen file must not reveal passwords, which people use elsewhere, too. Therefore only a slow,
//! memory-hard hash is accepted. Hashes that a GPU can guess by the billion are rejected, with instructions
//! for setting the password again.

use std::collections::HashMap;
use std::path::Path;

use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};

use crate::error::{FileError, LineError};
use crate::memory_pool::Memory;

/// Limits of a hash's parameters (memory in KiB), so that a file cannot keep a broker busy.
const MAX_MEMORY_KIB: u32 = 256 << 10;
const MAX_PASSES: u32 = 16;
const MAX_LANES: u32 = 16;

/// The users of a file.
#[derive(Debug)]
pub struct Users {
    hashes: HashMap<Box<str>, PasswordHash>,
    /// A hash that matches no password, with the highest cost of all: verified for unknown users.
    nobody: PasswordHash,
}

impl Users {
    /// Reads a password file. May block.
    ///
    /// # Errors
    /// [`FileError`] with the lines of all errors, and the remedy.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path).map_err(FileError::io("read", path))?;
        Self::parse(&text).map_err(|wrong| FileError::Invalid { path: path.into(), errors: wrong })
    }

    /// Parses the lines. Empty lines and those that begin with `#` are ignored.
    ///
    /// ```
    /// use phalanx_access::Users;
    ///
    /// let text = phalanx_access::passwd::set("# people\n", "eve", b"apple")?;
    /// let users = Users::parse(&text).unwrap();
    /// assert!(users.verify("eve", b"apple"));
    /// assert!(!users.verify("eve", b"pear") && !users.verify("adam", b"apple"));
    /// # Ok::<(), phalanx_access::LineError>(())
    /// ```
    ///
    /// # Errors
    /// All errors, at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<LineError>> {
        let (mut hashes, mut wrong) = (HashMap::new(), Vec::new());
        let mut dearest = Params::DEFAULT;
        for (n, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let mut told = |column, what| wrong.push(LineError { line: n + 1, column, what });
            match user(line.trim_end()) {
                Ok((name, hash, params)) => {
                    let cost = |of: &Params| u64::from(of.m_cost()) * u64::from(of.t_cost());
                    if cost(&params) > cost(&dearest) {
                        dearest = params;
                    }
                    if hashes.insert(name.into(), hash).is_some() {
                        told(1, format!("user {name:?} is listed twice"));
                    }
                }
                Err((column, what)) => told(column, what),
            }
        }
        if hashes.is_empty() && wrong.is_empty() {
            wrong.push(LineError { line: 0, column: 0, what: "the file contains no users".into() });
        }
        let (m, t, p) = (dearest.m_cost(), dearest.t_cost(), dearest.p_cost());
        let (salt, hash) = ("A".repeat(22), "A".repeat(43));
        let nobody = PasswordHash::new(&format!("$argon2id$v=19$m={m},t={t},p={p}${salt}${hash}"));
        let nobody = nobody.expect("the text is a hash");
        if wrong.is_empty() { Ok(Self { hashes, nobody }) } else { Err(wrong) }
    }

    /// Whether this is the user's password. Deliberately takes tens of milliseconds, for an unknown user as
    /// long as for the most expensive hash; [`Passwords`](crate::Passwords) runs it on threads.
    pub fn verify(&self, name: &str, password: &[u8]) -> bool {
        self.verify_in(name, password, &mut Memory::default())
    }

    /// As [`verify`](Self::verify), in memory that may have been used before.
    pub(crate) fn verify_in(&self, name: &str, password: &[u8], memory: &mut Memory) -> bool {
        let known = self.hashes.get(name);
        let is_right = is_of(password, known.unwrap_or(&self.nobody), memory);
        is_right.unwrap_or(false) && known.is_some()
    }
}

/// Whether a hash belongs to this password; `None` if the hash is invalid.
fn is_of(password: &[u8], hash: &PasswordHash, memory: &mut Memory) -> Option<bool> {
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

/// The name, hash and parameters of a line; or the column and description of an error.
fn user(line: &str) -> Result<(&str, PasswordHash, Params), (usize, String)> {
    let Some((name, hash)) = line.split_once(':') else {
        let what = "expected a name, a colon and a hash, as `phalanx passwd` writes them";
        return Err((1, what.into()));
    };
    if let Err(what) = check_name(name) {
        return Err((1, what));
    }
    let column = name.chars().count() + 2;
    let told = |what: String| (column, what);
    if !hash.starts_with("$argon2id$") {
        return Err(told(format!(
            "the password of {name:?} is not hashed with Argon2id, so it may be easy to guess: set it again \
             with `phalanx passwd`"
        )));
    }
    let broken = || {
        told(format!(
            "the hash of {name:?} is invalid: set the password again with `phalanx passwd`"
        ))
    };
    let hash = PasswordHash::new(hash).map_err(|_| broken())?;
    let params = Params::try_from(&hash).map_err(|_| broken())?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(broken());
    }
    let (m, t, p) = (params.m_cost(), params.t_cost(), params.p_cost());
    if m > MAX_MEMORY_KIB || t > MAX_PASSES || p > MAX_LANES {
        return Err(told(format!(
            "the hash of {name:?} has m={m}, t={t}, p={p}; expected at most m={MAX_MEMORY_KIB}, \
             t={MAX_PASSES}, p={MAX_LANES}"
        )));
    }
    Ok((name, hash, params))
}

/// Checks that `name` is a valid user name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let bad = name.contains(':') || name.chars().any(char::is_control);
    if name.is_empty() || name.trim() != name || name.starts_with('#') || bad {
        return Err(format!(
            "found {name:?}, expected a user name without colons and surrounding spaces"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cheap hash for a quick test; the password is "apple".
    fn hash(params: &str) -> String {
        use argon2::{Algorithm, Version};
        let params: Params = params.parse().unwrap();
        let mut out = [0; 32];
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
        argon.hash_password_into(b"apple", b"saltsaltsaltsalt", &mut out).unwrap();
        let mut text =
            PasswordHash::new("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA").unwrap();
        text.params = (&params).try_into().unwrap();
        text.hash = Some(argon2::password_hash::phc::Output::new(&out).unwrap());
        text.to_string()
    }

    #[test]
    fn passwords_by_user() {
        let text = format!(
            "# people\n\n eve:x\neve:{}\r\nadam:{}",
            hash("m=8,t=1,p=1"),
            hash("m=16,t=2,p=1")
        );
        assert_eq!(Users::parse(&text).unwrap_err()[0].line, 3);
        let users = Users::parse(&text.replace(" eve:x", "")).unwrap();
        // (name, password, is right)
        let table = [
            ("eve", "apple", true),
            ("adam", "apple", true),
            ("eve", "rib", false),
            ("eve", "", false),
            ("Eve", "apple", false),
            ("", "apple", false),
            ("snake", "apple", false),
        ];
        for (name, password, right) in table {
            assert_eq!(users.verify(name, password.as_bytes()), right, "{name}");
        }
    }

    /// An unknown user takes as long as the most expensive hash.
    #[test]
    fn unknown_users_cost_as_much_as_known_ones() {
        let dear = hash("m=8,t=1,p=1").replace("m=8,t=1", "m=40000,t=3");
        let users = Users::parse(&format!("a:{}\nb:{dear}", hash("m=8,t=1,p=1"))).unwrap();
        assert!(users.nobody.to_string().contains("m=40000,t=3,p=1"));
    }

    #[test]
    fn rejected_lines_are_reported() {
        let good = hash("m=8,t=1,p=1");
        // (text, line, column, part of the message)
        let table = [
            ("".to_owned(), 0, 0, "no user"),
            ("eve".to_owned(), 1, 1, "expected a name, a colon"),
            (format!("\n:{good}"), 2, 1, "expected a user name"),
            (format!("e\u{7}ve:{good}"), 1, 1, "expected a user name"),
            (format!("eve:{good}\neve:{good}"), 2, 1, "twice"),
            ("eve:apple".to_owned(), 1, 5, "phalanx passwd"),
            ("eve:$2y$04$short".to_owned(), 1, 5, "not hashed with Argon2id"),
            ("eve:$7$101$salt$hash".to_owned(), 1, 5, "not hashed with Argon2id"),
            ("eve:$argon2id$v=19$m=8".to_owned(), 1, 5, "invalid"),
            (format!("eve:{}", good.replace("m=8", "m=9999999")), 1, 5, "m=9999999"),
        ];
        for (text, line, column, wanted) in table {
            let wrong = Users::parse(&text).unwrap_err();
            assert_eq!(wrong.len(), 1, "{text}");
            assert_eq!((wrong[0].line, wrong[0].column), (line, column), "{}", wrong[0]);
            assert!(wrong[0].what.contains(wanted), "{}", wrong[0]);
        }
    }
}
