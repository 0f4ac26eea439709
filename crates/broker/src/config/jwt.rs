//! Settings of JSON Web Tokens.

use std::path::PathBuf;
use std::time::Duration;

use phalanx_access::{Claims, Endpoint, FileError, Jwt, RemoteKeys};
use phalanx_config::{ConfigError, settings};

use crate::config::{DAY, MINUTE};

settings! {
    /// JSON Web Tokens as passwords.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JwtConfig {
        /// A JSON Web Key Set: the keys of the issuers. Excludes `keys_url`.
        pub keys_file: Option<PathBuf>
            => key("keys-file", "JSON Web Key Set with the keys that sign tokens; SIGHUP rereads it");
        /// The URL of a JSON Web Key Set, which the broker fetches.
        pub keys_url: Option<String>
            => key("keys-url",
                "URL of the key set, such as https://id.example.org/jwks.json, instead of keys-file; fetched at the \
                 start and again when it is too old or a token has an unknown key");
        /// PEM file: certificate authorities of `keys_url`, by default those of the system.
        pub keys_ca: Option<PathBuf>
            => key("keys-ca",
                "PEM file with the certificate authorities of keys-url, by default those of the system");
        /// How long the keys at `keys_url` are used after they were fetched, if further fetches fail.
        pub keys_max_age: Duration = 7 * DAY
            => range("keys-max-age", MINUTE..=365 * DAY,
                "time for which the keys of keys-url are used after they were fetched, if further fetches fail");
        /// The claim that contains the user name.
        pub user_claim: String = "sub".into()
            => key("user-claim", "claim that contains the user name");
        /// The audience that tokens must name.
        pub audience: Option<String> => key("audience", "audience (aud) that tokens must name");
        /// The issuer that tokens must name.
        pub issuer: Option<String> => key("issuer", "issuer (iss) that tokens must name");
    }
}

impl JwtConfig {
    /// Reads the keys of a file. Keys at a URL are fetched later; until then those of `earlier` stay in use. May block.
    pub(crate) fn open(&self, earlier: Option<&Jwt>) -> Result<Jwt, FileError> {
        let Self { keys_file, keys_url, keys_ca, keys_max_age, .. } = self.clone();
        let Self { user_claim, audience, issuer, .. } = self.clone();
        let claims = Claims { user: user_claim, audience, issuer };
        match keys_url {
            Some(url) => {
                let endpoint = Endpoint::open(&url, keys_ca.as_deref())?;
                let earlier = earlier.and_then(Jwt::remote_keys);
                let keys = RemoteKeys::new(endpoint, keys_max_age, earlier);
                Ok(Jwt::remote(keys, claims))
            }
            None => Ok(Jwt::open(&keys_file.unwrap_or_default(), claims)?),
        }
    }

    /// Errors that can be found without opening a file.
    pub(super) fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut add_error =
            |key: &str, message: String| errors.push(ConfigError::for_key(key, message));
        match (&self.keys_file, &self.keys_url) {
            (None, None) => {
                let error = ConfigError::for_key("jwt", "`keys-file` or `keys-url` is missing");
                return vec![error.with_keys(["keys-file", "keys-url"])];
            }
            (Some(_), Some(_)) => {
                add_error("jwt.keys-url", "excludes `keys-file`; remove one of the two".into())
            }
            (_, Some(url)) => {
                if let Err(message) = Endpoint::check(url) {
                    add_error("jwt.keys-url", message);
                }
            }
            (Some(_), None) if self.keys_ca.is_some() => {
                add_error("jwt.keys-ca", "is for `keys-url`, which is not set".into());
            }
            (Some(_), None) => (),
        }
        errors
    }
}
