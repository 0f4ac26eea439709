//! The server's side of an exchange: the client's first message, the challenge, the client's proof, the server's proof.

use base64ct::{Base64, Encoding};
use ring::rand::{SecureRandom, SystemRandom};

use super::keys::{Keys, Mechanism};
use super::messages::{First, Last};
use crate::users::Users;

/// Bytes of the server's nonce.
const NONCE_BYTES: usize = 18;

/// An exchange that waits for the client's proof. It has a few hundred bytes, and up to two messages of 4 KiB.
#[derive(Debug)]
pub struct Exchange {
    user: String,
    keys: Keys,
    /// Whether the user has keys; decoys match no proof.
    is_known: bool,
    header: String,
    bare: String,
    nonce: String,
    challenge: String,
}

/// The result of an exchange.
#[derive(Debug)]
pub struct Proof {
    /// Whether the client knows the password.
    pub is_valid: bool,
    /// The client's key: the same at each exchange with the right password, and unpredictable with a wrong one.
    pub key: Vec<u8>,
    /// The message by which the server proves that it has the user's keys.
    pub answer: String,
}

impl Exchange {
    /// Begins an exchange with the client's first message. A user without keys gets a challenge like all others.
    ///
    /// # Errors
    /// The reason why the message is refused.
    pub fn begin(users: &Users, mechanism: Mechanism, first: &[u8]) -> Result<Self, &'static str> {
        let mut nonce = [0; NONCE_BYTES];
        let random = SystemRandom::new().fill(&mut nonce);
        random.map_err(|_| "the system returned no random numbers")?;
        Self::with_nonce(users, mechanism, (first, &Base64::encode_string(&nonce)))
    }

    fn with_nonce(
        users: &Users,
        mechanism: Mechanism,
        (first, nonce): (&[u8], &str),
    ) -> Result<Self, &'static str> {
        let First { header, bare, user, nonce: of_client } = First::parse(first)?;
        let (keys, is_known) =
            users.scram(mechanism, &user).ok_or("no user has keys for this mechanism")?;
        let nonce = format!("{of_client}{nonce}");
        let salt = Base64::encode_string(&keys.salt);
        let challenge = format!("r={nonce},s={salt},i={}", keys.iterations);
        let (header, bare) = (header.to_owned(), bare.to_owned());
        Ok(Self { user, keys, is_known, header, bare, nonce, challenge })
    }

    /// The user that the client claims to be.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The message that follows the client's first one.
    pub fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Ends the exchange with the client's last message. Takes microseconds.
    ///
    /// # Errors
    /// The reason why the message is refused; it contains no proof for this exchange.
    pub fn finish(&self, last: &[u8]) -> Result<Proof, &'static str> {
        let Last { bare, header, nonce, proof } =
            Last::parse(last).ok_or("the last message of SCRAM is malformed")?;
        if header != self.header.as_bytes() || nonce != self.nonce {
            return Err("the last message of SCRAM belongs to another exchange");
        }
        let mechanism = self.keys.mechanism;
        if proof.len() != mechanism.hash().output_len() {
            return Err("the proof of SCRAM has a wrong length");
        }
        let exchange = [&self.bare, &*self.challenge, bare].join(",");
        let (key, is_valid) = self.keys.verify_proof(&proof, exchange.as_bytes());
        let signature = mechanism.hmac(&self.keys.server, exchange.as_bytes());
        let answer = format!("v={}", Base64::encode_string(signature.as_ref()));
        Ok(Proof { is_valid: is_valid && self.is_known, key, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3: user `user` with the password `pencil`.
    const USER: &str = "user:SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn exchange(users: &Users, first: &[u8]) -> Exchange {
        Exchange::with_nonce(users, Mechanism::Sha256, (first, NONCE)).unwrap()
    }

    #[test]
    fn the_example_of_the_standard() {
        let users = Users::parse(USER).unwrap();
        assert!(users.verify("user", b"pencil") && !users.verify("user", b"pen"));
        let exchange = exchange(&users, FIRST);
        let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!((exchange.user(), exchange.challenge()), ("user", expected));
        let proof = exchange.finish(LAST.as_bytes()).unwrap();
        assert!(proof.is_valid);
        assert_eq!(proof.answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let invalid = exchange.finish(LAST.replace("p=d", "p=e").as_bytes()).unwrap();
        assert!(!invalid.is_valid && invalid.key != proof.key);
        for (changed, reason) in [
            (LAST.replace("biws", "eSws"), "another exchange"),
            (LAST.replace("k0", "k1"), "another exchange"),
            (LAST.replace("dHzb", ""), "wrong length"),
            (LAST.replace(",p=", ",q="), "malformed"),
        ] {
            assert!(exchange.finish(changed.as_bytes()).unwrap_err().contains(reason), "{changed}");
        }
        assert!(Exchange::begin(&users, Mechanism::Sha512, FIRST).is_err());
    }

    /// Users that do not exist, or have no keys, get a challenge, and always the same salt.
    #[test]
    fn a_challenge_does_not_reveal_users() {
        let argon = crate::passwd::set("", "argon", b"apple").unwrap();
        let users = Users::parse(&format!("{USER}\n{argon}")).unwrap();
        for user in ["nobody", "argon"] {
            let first = format!("n,,n={user},r=abc");
            let challenges = [0, 1].map(|_| exchange(&users, first.as_bytes()).challenge);
            assert_eq!(challenges[0], challenges[1]);
            assert!(challenges[0].ends_with(",i=4096") && !challenges[0].contains("W22ZaJ0SNY7"));
            let last = LAST.replace("rOprNGfwEbeRWgbNEkqO", "abc");
            let proof = exchange(&users, first.as_bytes()).finish(last.as_bytes()).unwrap();
            assert!(!proof.is_valid);
        }
    }
}
