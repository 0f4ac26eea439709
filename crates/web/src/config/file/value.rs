//! Values of keys: how each type is written in TOML, and what to say when it is written otherwise.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx::Choice;
use toml::de::DeValue;

use crate::config::{Listen, LogFormat, LogTarget, RedirectStatus, Symlinks, UnknownHost};

/// A type that keys have.
pub(super) trait Value: Sized {
    /// What it looks like, behind "expected".
    fn expected() -> String;
    /// Reads one. The error says why, if there is more to say than what was expected.
    fn read(value: &DeValue<'_>) -> Result<Self, String>;
    /// Writes one, so that it reads the same.
    fn print(&self) -> toml::Value;
}

/// A value that names a place in the file system.
pub(super) trait Place: Value {
    /// If it is a relative path, it begins at `base`.
    fn begin_at(&mut self, base: &Path);
}

impl Value for bool {
    fn expected() -> String {
        "true or false".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(String::new)
    }

    fn print(&self) -> toml::Value {
        (*self).into()
    }
}

fn integer(value: &DeValue<'_>) -> Result<u64, String> {
    let integer = value.as_integer().ok_or_else(String::new)?;
    u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| String::new())
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn expected() -> String {
                format!("a number from 0 to {}", <$type>::MAX.min(i64::MAX as u64 as $type))
            }

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                integer(value)?.try_into().map_err(|_| String::new())
            }

            fn print(&self) -> toml::Value {
                toml::Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )*};
}
integers!(u16, u32, u64);

/// Amounts: of memory, or of anything.
impl Value for usize {
    fn expected() -> String {
        "a number, or an amount such as \"64K\", \"256M\" or \"2G\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => crate::config::amount(text),
            None => integer(value)?.try_into().map_err(|_| String::new()),
        }
    }

    fn print(&self) -> toml::Value {
        toml::Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Value for f64 {
    fn expected() -> String {
        "a number that is not negative".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let number = match value.as_float() {
            Some(float) => float.as_str().parse().map_err(|_| String::new())?,
            None => integer(value)? as f64,
        };
        if f64::is_finite(number) && number >= 0.0 { Ok(number) } else { Err(String::new()) }
    }

    fn print(&self) -> toml::Value {
        (*self).into()
    }
}

impl Value for String {
    fn expected() -> String {
        "a text in quotes".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().map(str::to_owned).ok_or_else(String::new)
    }

    fn print(&self) -> toml::Value {
        self.clone().into()
    }
}

impl Value for PathBuf {
    fn expected() -> String {
        "a path in quotes".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text.into()),
            _ => Err(String::new()),
        }
    }

    fn print(&self) -> toml::Value {
        self.to_string_lossy().into_owned().into()
    }
}

impl Place for PathBuf {
    fn begin_at(&mut self, base: &Path) {
        *self = base.join(&self).components().collect();
    }
}

impl Value for Duration {
    fn expected() -> String {
        "a time such as \"20us\", \"500ms\", \"30s\", \"5m\", \"2h\" or \"7d\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(String::new)?;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let count: u64 = digits.parse().map_err(|_| String::new())?;
        let seconds = |unit| count.checked_mul(unit).map(Self::from_secs).ok_or_else(String::new);
        match &text[digits.len()..] {
            "ns" => Ok(Self::from_nanos(count)),
            "us" => Ok(Self::from_micros(count)),
            "ms" => Ok(Self::from_millis(count)),
            "s" => seconds(1),
            "m" => seconds(60),
            "h" => seconds(3600),
            "d" => seconds(86_400),
            _ => Err(String::new()),
        }
    }

    fn print(&self) -> toml::Value {
        // In the largest unit that it is a whole number of.
        let text = match self.as_nanos() {
            _ if self.subsec_nanos() == 0 => format!("{}s", self.as_secs()),
            n if n % 1_000_000 == 0 => format!("{}ms", n / 1_000_000),
            n if n % 1000 == 0 => format!("{}us", n / 1000),
            n => format!("{n}ns"),
        };
        text.into()
    }
}

/// `false` stands for none.
impl<T: Value> Value for Option<T> {
    fn expected() -> String {
        format!("{}, or false for none", T::expected())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Boolean(false) => Ok(None),
            _ => T::read(value).map(Some),
        }
    }

    fn print(&self) -> toml::Value {
        self.as_ref().map_or(false.into(), T::print)
    }
}

/// A list; one alone needs no brackets.
impl<T: Value> Value for Vec<T> {
    fn expected() -> String {
        format!("a list in brackets, each {}", T::expected())
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Array(array) => array.iter().map(|item| T::read(item.get_ref())).collect(),
            _ => Ok(vec![T::read(value)?]),
        }
    }

    fn print(&self) -> toml::Value {
        toml::Value::Array(self.iter().map(T::print).collect())
    }
}

/// Statuses and the pages that are shown with them.
impl Value for Vec<(u16, String)> {
    fn expected() -> String {
        "a table such as { 404 = \"404.html\" }".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let table = value.as_table().ok_or_else(String::new)?;
        let pages = table.iter().map(|(status, page)| {
            let status = status.get_ref();
            match status.parse() {
                Ok(code @ 400..=599) => Ok((code, String::read(page.get_ref())?)),
                _ => Err(format!("{status} is no status of an error")),
            }
        });
        let mut pages = pages.collect::<Result<Self, _>>()?;
        pages.sort();
        Ok(pages)
    }

    fn print(&self) -> toml::Value {
        let page = |(status, page): &(u16, String)| (status.to_string(), page.clone().into());
        toml::Value::Table(self.iter().map(page).collect())
    }
}

impl Value for SocketAddr {
    fn expected() -> String {
        "an address and a port such as \"127.0.0.1:8080\" or \"[::]:80\"".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(String::new)
    }

    fn print(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// `tls:` in front says that connections there are TLS, `to-tls:` that they are sent to where it is.
impl Value for Listen {
    fn expected() -> String {
        "an address and a port such as \"127.0.0.1:8080\", \"tls:[::]:443\" or \"to-tls:[::]:80\""
            .into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(String::new)
    }

    fn print(&self) -> toml::Value {
        self.to_string().into()
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, to_tls) = (text.strip_prefix("tls:"), text.strip_prefix("to-tls:"));
        match tls.or(to_tls).unwrap_or(text).parse() {
            Ok(address) => Ok(Self { address, tls: tls.is_some(), to_https: to_tls.is_some() }),
            Err(_) => Err(format!("{text:?}: expected {}", Self::expected())),
        }
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = match (self.tls, self.to_https) {
            (true, _) => "tls:",
            (false, true) => "to-tls:",
            (false, false) => "",
        };
        write!(f, "{before}{}", self.address)
    }
}

macro_rules! choices {
    ($($type:ty: $($variant:path = $text:literal),*;)*) => {$(
        impl Value for $type {
            fn expected() -> String {
                [$(concat!("\"", $text, "\"")),*].join(" or ")
            }

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                match value.as_str() {
                    $(Some($text) => Ok($variant),)*
                    _ => Err(String::new()),
                }
            }

            fn print(&self) -> toml::Value {
                match self { $($variant => $text,)* }.into()
            }
        }
    )*};
}
choices! {
    Choice: Choice::Auto = "auto", Choice::Uring = "uring", Choice::Poll = "poll";
    Symlinks: Symlinks::Refused = "refused", Symlinks::OwnerMatches = "owner-matches",
        Symlinks::Followed = "followed";
    UnknownHost: UnknownHost::First = "first", UnknownHost::NotFound = "404",
        UnknownHost::Misdirected = "421";
    LogFormat: LogFormat::Common = "common", LogFormat::Combined = "combined",
        LogFormat::Json = "json";
}

impl Value for RedirectStatus {
    fn expected() -> String {
        "301, 302, 307 or 308".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match integer(value)? {
            301 => Ok(Self::MovedPermanently),
            302 => Ok(Self::Found),
            307 => Ok(Self::Temporary),
            308 => Ok(Self::Permanent),
            _ => Err(String::new()),
        }
    }

    fn print(&self) -> toml::Value {
        toml::Value::Integer(match self {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::Temporary => 307,
            Self::Permanent => 308,
        })
    }
}

impl Value for LogTarget {
    fn expected() -> String {
        "\"stdout\", or a path with a slash in it".into()
    }

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("stdout") => Ok(Self::Stdout),
            Some(path) if path.contains('/') => Ok(Self::File(path.into())),
            _ => Err(String::new()),
        }
    }

    fn print(&self) -> toml::Value {
        match self {
            Self::Stdout => "stdout".into(),
            Self::File(path) => path.to_string_lossy().into_owned().into(),
        }
    }
}

impl Place for LogTarget {
    fn begin_at(&mut self, base: &Path) {
        if let Self::File(path) = self {
            path.begin_at(base);
        }
    }
}
