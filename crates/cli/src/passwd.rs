//! `phalanx passwd`: sets a user's password in a password file of the broker.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use phalanx_access::passwd::{self, Scheme};
use phalanx_access::scram::Mechanism;

use crate::stdout;

/// Set a user's password in a password file for the broker
///
/// The password is read twice from the terminal without echo, or as a line of standard input. The file is created
/// if missing.
#[derive(Args)]
pub(crate) struct Passwd {
    /// The password file.
    file: PathBuf,
    /// The user name, without colons and surrounding spaces.
    user: String,

    /// Store SCRAM keys, with which MQTT 5 clients can log in without sending the password.
    #[arg(long, value_name = "HASH", num_args = 0..=1, require_equals = true, default_missing_value = "sha-256")]
    scram: Option<Hash>,

    /// Iterations that a client computes at each SCRAM login, at least 4096. Use fewer for small devices.
    #[arg(long, default_value_t = 100_000, requires = "scram")]
    iterations: u32,
}

/// The hash function of SCRAM.
#[derive(Clone, Copy, ValueEnum)]
enum Hash {
    #[value(name = "sha-256")]
    Sha256,
    #[value(name = "sha-512")]
    Sha512,
}

impl Passwd {
    fn scheme(&self) -> Scheme {
        let mechanism = match self.scram {
            None => return Scheme::Argon2id,
            Some(Hash::Sha256) => Mechanism::Sha256,
            Some(Hash::Sha512) => Mechanism::Sha512,
        };
        Scheme::Scram { mechanism, iterations: self.iterations }
    }

    pub(crate) fn run(self) -> ExitCode {
        let scheme = self.scheme();
        let set = read(&self.user).and_then(|password| {
            let set = passwd::set_in_file(&self.file, &self.user, password.as_bytes(), scheme);
            set.map_err(|error| error.to_string())
        });
        match set {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                stdout::complain(format_args!("phalanx passwd: {message}"));
                ExitCode::FAILURE
            }
        }
    }
}

fn read(user: &str) -> Result<String, String> {
    let ask = |prompt: &str| {
        rpassword::prompt_password(prompt)
            .map_err(|error| format!("cannot read the password: {error}"))
    };
    if !io::stdin().is_terminal() {
        return line().map_err(|error| format!("cannot read the password: {error}"));
    }
    let first = ask(&format!("Password of {user}: "))?;
    match ask("Repeat the password: ")? == first {
        true => Ok(first),
        false => Err("the passwords differ".to_owned()),
    }
}

/// A line of standard input without its newline.
fn line() -> io::Result<String> {
    match io::stdin().lines().next() {
        Some(line) => line,
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
