//! Errors of the clients and their exit codes.

use std::io;
use std::process::ExitCode;

use phalanx_mqtt::{Properties, Property, Reason};

use crate::stdout;

/// Why a client ends before it has completed its task.
#[derive(Debug)]
pub(super) enum Failure {
    /// Invalid arguments: exit code 2.
    Usage(String),
    /// The broker is unreachable or rejected a request: exit code 1.
    Broker(String),
    /// Timeout: exit code 3.
    Timeout(String),
    /// Interrupted by a signal: exit code 130.
    Interrupted,
    /// The reader of the output closed it, so the work is done: exit code 0.
    OutputClosed,
}

impl Failure {
    pub(super) fn from_io(message: &str, error: &io::Error) -> Self {
        match error.kind() {
            // A blocking socket with a timeout reports the latter.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                Self::Timeout(format!("{message}: timeout"))
            }
            _ => Self::Broker(format!("{message}: {error}")),
        }
    }

    /// Prints the error to stderr and returns the exit code.
    pub(super) fn report(&self, command: &str) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text, 2),
            Self::Broker(text) => (text, 1),
            Self::Timeout(text) => (text, 3),
            Self::Interrupted => return ExitCode::from(130),
            Self::OutputClosed => return ExitCode::SUCCESS,
        };
        for line in text.lines() {
            match line.starts_with(' ') {
                true => stdout::complain(line),
                false => stdout::complain(format_args!("phalanx {command}: {line}")),
            }
        }
        ExitCode::from(code)
    }
}

/// A reason code with the broker's reason string, if any, and a remedy.
pub(super) fn reason_text(reason: Reason, properties: Properties<'_>) -> String {
    let reason_string = properties.iter().find_map(|property| match property {
        Property::ReasonString(text) => Some(text),
        _ => None,
    });
    let mut text = reason.to_string();
    if let Some(reason_string) = reason_string {
        text = format!("{text}: {reason_string}");
    }
    let login = "the user name in --broker mqtt://USER@HOST, the password in PHALANX_PASSWORD or --password-file";
    let hint = match reason {
        Reason::BAD_USER_NAME_OR_PASSWORD => format!("give {login}"),
        Reason::NOT_AUTHORIZED => {
            format!("ask the broker's operator for access, or log in: {login}")
        }
        Reason::CLIENT_IDENTIFIER_NOT_VALID => "choose another --client-id".into(),
        Reason::SERVER_BUSY | Reason::QUOTA_EXCEEDED => {
            "the broker is full: try again later".into()
        }
        _ => return text,
    };
    format!("{text}\n  {hint}")
}
