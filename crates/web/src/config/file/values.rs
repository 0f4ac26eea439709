//! Value types that only the web server has.

use std::path::Path;

use phalanx_config::{Given, PathValue, Value, Written, choices, integer};

use crate::config::{LogFormat, LogTarget, RedirectStatus, Symlinks, UnknownHost};

/// Error pages by status.
pub(super) struct ErrorPages;

impl Value<Vec<(u16, String)>> for ErrorPages {
    fn expected() -> String {
        "a table such as { 404 = \"404.html\" }".into()
    }

    fn read(value: &Given<'_>) -> Result<Vec<(u16, String)>, String> {
        let table = value.as_table().ok_or_else(String::new)?;
        let pages = table.iter().map(|(status, page)| {
            let status = status.get_ref();
            match status.parse() {
                Ok(code @ 400..=599) => Ok((code, String::read(page.get_ref())?)),
                _ => Err(format!("{status} is not an error status")),
            }
        });
        let mut pages = pages.collect::<Result<Vec<_>, _>>()?;
        pages.sort();
        Ok(pages)
    }

    fn print(pages: &Vec<(u16, String)>) -> Written {
        let page = |(status, page): &(u16, String)| (status.to_string(), page.clone().into());
        Written::Table(pages.iter().map(page).collect())
    }
}

/// Formats of the access log.
pub(super) struct LogFormats;

choices! {
    Symlinks as Symlinks: Symlinks::Deny = "deny", Symlinks::OwnerMatches = "owner-matches",
        Symlinks::Follow = "follow";
    UnknownHost as UnknownHost: UnknownHost::First = "first", UnknownHost::NotFound = "404",
        UnknownHost::Misdirected = "421";
    LogFormats as LogFormat: LogFormat::Common = "common", LogFormat::Combined = "combined",
        LogFormat::Json = "json";
}

impl Value for RedirectStatus {
    fn expected() -> String {
        "301, 302, 307 or 308".into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        match integer(value)? {
            301 => Ok(Self::MovedPermanently),
            302 => Ok(Self::Found),
            307 => Ok(Self::Temporary),
            308 => Ok(Self::Permanent),
            _ => Err(String::new()),
        }
    }

    fn print(value: &Self) -> Written {
        Written::Integer(match value {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::Temporary => 307,
            Self::Permanent => 308,
        })
    }
}

impl Value for LogTarget {
    fn expected() -> String {
        "\"stdout\", or a path that contains a slash".into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("stdout") => Ok(Self::Stdout),
            Some(path) if path.contains('/') => Ok(Self::File(path.into())),
            _ => Err(String::new()),
        }
    }

    fn print(value: &Self) -> Written {
        match value {
            Self::Stdout => "stdout".into(),
            Self::File(path) => path.to_string_lossy().into_owned().into(),
        }
    }
}

impl PathValue for LogTarget {
    fn resolve(&mut self, base: &Path) {
        if let Self::File(path) = self {
            path.resolve(base);
        }
    }
}
