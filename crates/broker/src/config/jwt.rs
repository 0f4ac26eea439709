//! Settings of JSON Web Tokens.

use std::path::PathBuf;

use phalanx_access::{Claims, FileError, Jwt};
use phalanx_config::{Keys, Pass};

/// JSON Web Tokens as passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// A JSON Web Key Set: the keys of the issuers.
    pub keys_file: PathBuf,
    /// The claim that contains the user name.
    pub user_claim: String,
    /// The audience that tokens must name.
    pub audience: Option<String>,
    /// The issuer that tokens must name.
    pub issuer: Option<String>,
}

impl Default for JwtConfig {
    fn default() -> Self {
        let user_claim = "sub".into();
        Self { keys_file: PathBuf::new(), user_claim, audience: None, issuer: None }
    }
}

impl JwtConfig {
    /// Reads the keys. May block.
    pub(crate) fn open(&self) -> Result<Jwt, FileError> {
        let Self { keys_file, user_claim, audience, issuer } = self.clone();
        Jwt::open(&keys_file, Claims { user: user_claim, audience, issuer })
    }
}

impl Keys for JwtConfig {
    fn keys(&mut self, pass: &mut Pass<'_, '_>) {
        let Self { keys_file, user_claim, audience, issuer } = self;
        let help = "JSON Web Key Set with the keys that sign tokens; SIGHUP rereads it";
        pass.required("keys-file", keys_file, help);
        pass.key("user-claim", user_claim, "claim that contains the user name");
        pass.key("audience", audience, "audience (aud) that tokens must name");
        pass.key("issuer", issuer, "issuer (iss) that tokens must name");
    }
}
