//! Salts for users without keys. An exchange begins with the user's salt and iterations, so an error at this point would
//! reveal whether a user exists.
//!
//! Like the salt of a user, a decoy is the same at each attempt and after each restart: it is derived from a secret in
//! the password file. `phalanx passwd` writes the secret with the first keys, as a comment, which other programs
//! ignore. In a file without the secret, the server key of the first user with keys is used instead, which that user
//! knows.

use std::num::NonZeroU32;

use base64ct::{Base64, Encoding};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::keys::{Keys, Mechanism};

/// The start of the line with the secret.
const LINE: &str = "#scram-decoys=";
/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The secret of the decoys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecoySecret(Vec<u8>);

impl DecoySecret {
    /// Reads a line of a password file. `None` for another line.
    ///
    /// # Errors
    /// A description of an invalid secret.
    pub(crate) fn read(line: &str) -> Option<Result<Self, String>> {
        let secret = Base64::decode_vec(line.strip_prefix(LINE)?.trim_end());
        let is_long = |secret: &Vec<u8>| secret.len() == SECRET_BYTES;
        let secret = secret.ok().filter(is_long).map(Self);
        Some(secret.ok_or_else(|| {
            format!("expected {SECRET_BYTES} bytes in Base64 after {LINE}; remove the line, and set a password again")
        }))
    }

    /// A line with a new secret.
    ///
    /// # Errors
    /// If the system returns no random numbers.
    pub(crate) fn new_line() -> Result<String, String> {
        let mut secret = [0; SECRET_BYTES];
        let random = SystemRandom::new().fill(&mut secret);
        random.map_err(|_| "the system returned no random numbers")?;
        Ok(format!("{LINE}{}", Base64::encode_string(&secret)))
    }
}

/// The decoys of one mechanism.
#[derive(Debug)]
pub(crate) struct Decoys {
    mechanism: Mechanism,
    secret: hmac::Key,
    /// The distinct iterations and salt lengths of users, in the order of the file.
    shapes: Vec<(NonZeroU32, usize)>,
}

impl Decoys {
    /// The decoys for a file with this secret, whose users have these keys, in order. `None` without such users.
    pub(crate) fn new<'a>(
        mechanism: Mechanism,
        secret: Option<&DecoySecret>,
        users: impl Iterator<Item = &'a Keys>,
    ) -> Option<Self> {
        let mut users = users.filter(|keys| keys.mechanism == mechanism).peekable();
        let first = users.peek()?;
        let secret = secret.map_or(&*first.server, |secret| &secret.0);
        let secret = hmac::Key::new(hmac::HMAC_SHA512, secret);
        let mut shapes = Vec::new();
        for shape in users.map(|keys| (keys.iterations, keys.salt.len())) {
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        Some(Self { mechanism, secret, shapes })
    }

    pub(crate) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The decoy of a user: keys that match no proof.
    pub(crate) fn for_user(&self, user: &str) -> Keys {
        // The name of the mechanism is included, because equal salts for both mechanisms would reveal a decoy.
        let text = [self.mechanism.name().as_bytes(), b"\0", user.as_bytes()].concat();
        let tag = hmac::sign(&self.secret, &text);
        let (choice, salt) = tag.as_ref().split_at(1);
        let (iterations, length) = self.shapes[usize::from(choice[0]) % self.shapes.len()];
        let salt = salt.iter().cycle().take(length).copied().collect();
        Keys::decoy(self.mechanism, iterations, salt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoys_look_like_users() {
        let keys = |iterations| Keys::new(Mechanism::Sha256, iterations, b"apple").unwrap();
        let (first, second) = (keys(4096), keys(5000));
        let decoys = |users: &[&Keys]| Decoys::new(Mechanism::Sha256, None, users.iter().copied());
        assert!(decoys(&[]).is_none());
        assert!(Decoys::new(Mechanism::Sha512, None, [&first].into_iter()).is_none());
        let before = decoys(&[&first, &second]).unwrap();
        let after = decoys(&[&first, &second, &second, &first]).unwrap();
        let all: Vec<_> = (0..100).map(|n| before.for_user(&n.to_string())).collect();
        for (n, decoy) in all.iter().enumerate() {
            assert_eq!(decoy, &after.for_user(&n.to_string()), "a new user changes no decoy");
            assert_eq!(decoy.salt.len(), first.salt.len());
            assert!(!decoy.is_of(b"apple"));
        }
        for for_user in [&first, &second] {
            assert!(all.iter().any(|decoy| decoy.iterations == for_user.iterations));
        }
    }

    #[test]
    fn decoys_of_two_mechanisms_have_different_salts() {
        let line = DecoySecret::new_line().unwrap();
        let secret = DecoySecret::read(&line).unwrap().unwrap();
        let salt = |mechanism| {
            let user = Keys::new(mechanism, 4096, b"apple").unwrap();
            Decoys::new(mechanism, Some(&secret), [&user].into_iter())
                .unwrap()
                .for_user("adam")
                .salt
        };
        assert_ne!(salt(Mechanism::Sha256), salt(Mechanism::Sha512));
    }

    #[test]
    fn the_secret_is_nobodys_key() {
        let keys = |password| Keys::new(Mechanism::Sha256, 4096, password).unwrap();
        let (first, second) = (keys(&b"apple"[..]), keys(b"pear"));
        let line = DecoySecret::new_line().unwrap();
        let secret = DecoySecret::read(&line).unwrap().unwrap();
        let decoys =
            |secret, user| Decoys::new(Mechanism::Sha256, secret, [user].into_iter()).unwrap();
        let decoy = decoys(Some(&secret), &first).for_user("adam");
        assert_eq!(
            decoy,
            decoys(Some(&secret), &second).for_user("adam"),
            "another first user changes no decoy"
        );
        assert_ne!(decoy, decoys(None, &first).for_user("adam"));
        assert!(DecoySecret::read("# people").is_none() && DecoySecret::read("eve:x").is_none());
        for invalid in
            [LINE.to_owned(), format!("{LINE}AAAA"), format!("{line}A"), format!("{LINE}!")]
        {
            assert!(DecoySecret::read(&invalid).unwrap().is_err(), "{invalid}");
        }
    }
}
