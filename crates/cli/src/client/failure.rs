//! What goes wrong, and the exit code that it has.

use std::io;
use std::process::ExitCode;

use phalanx_mqtt::{Properties, Property, Reason};

/// Why a client ends before it has done what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// What was asked for makes no sense: exit code 2.
    Usage(String),
    /// The broker is not there, or says no: exit code 1.
    Broker(String),
    /// The time is up: exit code 3.
    Late(String),
    /// Somebody wanted it to end: exit code 130.
    Interrupted,
    /// Nobody reads what it prints any more, so nothing is left to do: exit code 0.
    Unread,
}

impl Failure {
    pub(super) fn of_system(what: &str, error: &io::Error) -> Self {
        Self::Broker(format!("{what}: {error}"))
    }

    /// Says it on stderr.
    pub(super) fn tell(&self, command: &str) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text, 2),
            Self::Broker(text) => (text, 1),
            Self::Late(text) => (text, 3),
            Self::Interrupted => return ExitCode::from(130),
            Self::Unread => return ExitCode::SUCCESS,
        };
        for line in text.lines() {
            match line.starts_with(' ') {
                true => eprintln!("{line}"),
                false => eprintln!("phalanx {command}: {line}"),
            }
        }
        ExitCode::from(code)
    }
}

/// A reason as the broker gives it, in words of its own if it has any, and what can be done about it.
pub(super) fn words(reason: Reason, properties: Properties<'_>) -> String {
    let own = properties.iter().find_map(|property| match property {
        Property::ReasonString(text) => Some(text),
        _ => None,
    });
    let mut text = reason.to_string();
    if let Some(own) = own {
        text = format!("{text}: {own}");
    }
    let hint = match reason {
        Reason::BAD_USER_NAME_OR_PASSWORD => {
            "the name goes before an @ in --broker, the password into PHALANX_PASSWORD or --password-file"
        }
        Reason::NOT_AUTHORIZED => "the broker's operator decides who may do this",
        Reason::CLIENT_IDENTIFIER_NOT_VALID => "choose another --client-id",
        Reason::SERVER_BUSY | Reason::QUOTA_EXCEEDED => "the broker is full: try again later",
        _ => return text,
    };
    format!("{text}\n  {hint}")
}
