//! `phalanx passwd`: sets a user's password in a password file of the broker.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use phalanx_access::passwd;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

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
    if !io::stdin().is_terminal() {
        return line().map_err(|error| format!("cannot read the password: {error}"));
    }
    let asked = |prompt: &str| -> io::Result<String> {
        eprint!("{prompt}");
        io::stderr().flush()?;
        let password = without_echo(line)?;
        eprintln!();
        Ok(password)
    };
    let both = asked(&format!("Password of {user}: "))
        .and_then(|first| Ok((first, asked("Repeat the password: ")?)));
    match both {
        Ok((first, second)) if first == second => Ok(first),
        Ok(_) => Err("the passwords differ".to_owned()),
        Err(error) => Err(format!("cannot read the password: {error}")),
    }
}

/// A line of standard input without its newline.
fn line() -> io::Result<String> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Calls `read` with the echo of the terminal disabled.
fn without_echo<T>(read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let result = read();
    tcsetattr(&stdin, OptionalActions::Now, &shown)?;
    result
}
