//! Salts for users without keys. An exchange begins with the user's salt and iterations, so an error at this point would
//! reveal whether a user exists.
//!
//! A decoy is the same at each attempt and after each restart, as the salt of a user is: a key of the password file
//! determines it. The decoys change only with the password of the first user that has keys.

use std::num::NonZeroU32;

use ring::hmac;

use super::keys::{Keys, Mechanism};

/// The decoys of one mechanism.
#[derive(Debug)]
pub(crate) struct Decoys {
    mechanism: Mechanism,
    secret: hmac::Key,
    /// The iterations and salt lengths of users, each once, in the order of the file.
    shapes: Vec<(NonZeroU32, usize)>,
}

impl Decoys {
    /// The decoys for a file, whose users have these keys, in order. `None` without such users.
    pub(crate) fn new<'a>(
        mechanism: Mechanism,
        users: impl Iterator<Item = &'a Keys>,
    ) -> Option<Self> {
        let mut users = users.filter(|keys| keys.mechanism == mechanism).peekable();
        let secret = hmac::Key::new(hmac::HMAC_SHA512, &users.peek()?.server);
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
    pub(crate) fn of(&self, user: &str) -> Keys {
        let tag = hmac::sign(&self.secret, user.as_bytes());
        let (choice, salt) = tag.as_ref().split_at(1);
        let (iterations, length) = self.shapes[usize::from(choice[0]) % self.shapes.len()];
        let salt = salt.iter().cycle().take(length).copied().collect();
        Keys::of_nobody(self.mechanism, iterations, salt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoys_look_like_users() {
        let keys = |iterations| Keys::new(Mechanism::Sha256, iterations, b"apple").unwrap();
        let (one, two) = (keys(4096), keys(5000));
        let decoys = |users: &[&Keys]| Decoys::new(Mechanism::Sha256, users.iter().copied());
        assert!(decoys(&[]).is_none());
        assert!(Decoys::new(Mechanism::Sha512, [&one].into_iter()).is_none());
        let before = decoys(&[&one, &two]).unwrap();
        let after = decoys(&[&one, &two, &two, &one]).unwrap();
        let all: Vec<_> = (0..100).map(|n| before.of(&n.to_string())).collect();
        for (n, decoy) in all.iter().enumerate() {
            assert_eq!(decoy, &after.of(&n.to_string()), "a new user changes no decoy");
            assert_eq!(decoy.salt.len(), one.salt.len());
            assert!(!decoy.is_of(b"apple"));
        }
        for of in [&one, &two] {
            assert!(all.iter().any(|decoy| decoy.iterations == of.iterations));
        }
    }
}
