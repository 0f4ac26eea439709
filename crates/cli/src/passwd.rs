//! `phalanx passwd`: sets a user's password in a password file of the broker.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use phalanx_access::passwd;

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
}

impl Passwd {
    pub(crate) fn run(self) -> ExitCode {
        let set = read(&self.user).and_then(|password| {
            let set = passwd::set_in_file(&self.file, &self.user, password.as_bytes());
            set.map_err(|error| error.to_string())
        });
        match set {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => {
                eprintln!("phalanx passwd: {what}");
                ExitCode::FAILURE
            }
        }
    }
}

fn read(user: &str) -> Result<String, String> {
    let asked = |prompt: &str| {
        rpassword::prompt_password(prompt)
            .map_err(|error| format!("cannot read the password: {error}"))
    };
    if !io::stdin().is_terminal() {
        return line().map_err(|error| format!("cannot read the password: {error}"));
    }
    let first = asked(&format!("Password of {user}: "))?;
    match asked("Repeat the password: ")? == first {
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
