//! Environment variables of the servers: their names, and error messages about their values.

use clap::error::{ContextKind, ContextValue};
use clap::{Command, Error};

/// Names the variables of a server: `prefix` and the flag's name, as `PHALANX_BROKER_LISTEN` for `--listen`. Only
/// flags declared with `env` have a variable.
pub(crate) fn named(command: Command, prefix: &str) -> Command {
    command.mut_args(|argument| match (argument.get_env(), argument.get_long()) {
        (Some(_), Some(long)) => {
            let name = format!("{prefix}{}", long.to_uppercase().replace('-', "_"));
            argument.env(name)
        }
        _ => argument,
    })
}

/// The variable that contains an invalid value, if any. Clap's message names only the flag.
pub(crate) fn source_variable(
    error: &Error,
    command: &Command,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let long = flag.split_whitespace().next()?.strip_prefix("--")?;
    let commands = command.get_subcommands();
    let names = commands
        .flat_map(Command::get_arguments)
        .filter(|argument| argument.get_long() == Some(long))
        .filter_map(|argument| argument.get_env()?.to_str());
    let said = |name: &&str| variable(name).is_some_and(|said| said.contains(value.as_str()));
    names.map(|name| name.to_owned()).find(|name| said(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own_variables() {
        let command = Command::new("web").args([
            clap::arg!(--"max-connections" <N>).env("ANY"),
            clap::arg!(--check),
            clap::arg!([name]).env("NAME"),
        ]);
        let command = named(command, "PHALANX_WEB_");
        let variables: Vec<_> = command.get_arguments().map(clap::Arg::get_env).collect();
        let expected = [Some("PHALANX_WEB_MAX_CONNECTIONS"), None, Some("NAME")];
        assert_eq!(variables, expected.map(|name| name.map(std::ffi::OsStr::new)));
    }

    #[test]
    fn an_invalid_variable_is_named() {
        let command =
            Command::new("all").subcommand(Command::new("web").arg(
                clap::arg!(--idle <SECONDS>).env("IDLE").value_parser(clap::value_parser!(u8)),
            ));
        let parse = |value: &str| {
            command.clone().try_get_matches_from(["all", "web", "--idle", value]).unwrap_err()
        };
        let variable = |name: &str| (name == "IDLE").then(|| "ten".to_owned());
        assert_eq!(source_variable(&parse("ten"), &command, variable).as_deref(), Some("IDLE"));
        assert_eq!(
            source_variable(&parse("two"), &command, variable),
            None,
            "the command line says that"
        );
        assert_eq!(source_variable(&parse("ten"), &command, |_| None), None);
    }
}
