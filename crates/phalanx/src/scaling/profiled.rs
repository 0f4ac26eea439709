//! The setting that `phalanx profile` requests from the program that it measures.

use std::net::SocketAddr;

use phalanx_core::Setting;

/// The environment variable with the setting and the address of the admin pages:
/// `active=2 spin=20000 coalesce=0 admin=127.0.0.1:9100`.
pub const PROFILE_VARIABLE: &str = "PHALANX_PROFILE";

/// The content of [`PROFILE_VARIABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profiled {
    /// `None` if the program keeps its own setting.
    pub(crate) setting: Option<Setting>,
    #[cfg_attr(not(feature = "admin"), allow(dead_code, reason = "there are no admin pages"))]
    pub(crate) admin: SocketAddr,
}

impl Profiled {
    /// Returns `None` if the variable is not set.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn of_environment() -> Option<Result<Self, String>> {
        let text = std::env::var_os(PROFILE_VARIABLE)?;
        Some(Self::parse(&text.to_string_lossy()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let admin = text.split_whitespace().find_map(|part| part.strip_prefix("admin="));
        let admin = admin.and_then(|address| address.parse::<SocketAddr>().ok());
        // The program's own check of its admin address does not apply to this address.
        let admin = admin.filter(|admin| admin.ip().is_loopback());
        let admin = admin.ok_or_else(|| {
            format!("{text:?} does not contain admin=ADDRESS:PORT with a loopback address")
        })?;
        let setting = text.contains("active=").then(|| text.parse()).transpose()?;
        Ok(Self { setting, admin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_contains_an_address_and_perhaps_a_setting() {
        let admin = "127.0.0.1:9100".parse().unwrap();
        let setting = Setting { active: 2, spin_ns: 5, coalesce_ns: 0 };
        let parse = Profiled::parse;
        assert_eq!(parse("admin=127.0.0.1:9100"), Ok(Profiled { setting: None, admin }));
        let text = format!("{setting} admin=127.0.0.1:9100");
        assert_eq!(parse(&text), Ok(Profiled { setting: Some(setting), admin }));
        assert!(parse("active=2").unwrap_err().contains("admin="));
        assert!(parse("admin=0.0.0.0:9100").unwrap_err().contains("loopback"));
        assert!(parse("active=2 admin=127.0.0.1:9100").unwrap_err().contains("spin="));
    }
}
