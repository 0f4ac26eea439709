//! Flags and environment variables of a server, generated from the declarations of its keys.

use std::collections::HashMap;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use phalanx_config::{Declaration, Table, Written, declarations, variable};

use crate::files::Pipes;
use crate::server::Server;

/// Flags that are not keys of the configuration, or short for one.
#[derive(Args, Clone)]
pub(crate) struct FileArgs {
    /// TOML configuration file. Its keys have the names of the flags, some with the prefix of a table, such as
    /// `runtime.workers`; --print-config prints all keys with their values.
    #[arg(long, short, value_name = "path", env)]
    pub(crate) config: Option<PathBuf>,

    /// Set a key of the configuration in the syntax of the file: `runtime.shutdown-timeout="5s"`. May be given several
    /// times, and a value may have several lines. The environment variable may contain several keys, one per line; it
    /// is ignored if the flag is given.
    #[arg(long, value_name = "key=value", env)]
    pub(crate) set: Vec<String>,

    /// Listen on this port of 127.0.0.1 only: short for --listen.
    #[arg(long, short, value_name = "port")]
    pub(crate) port: Option<u16>,

    /// Check the configuration and the files it names (directories, certificates, password files), print all
    /// errors and exit: 0 if it is valid, 1 if a file is unavailable, 2 for errors.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the effective configuration as TOML and exit.
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// The options of a server: [`FileArgs`], and a flag and a variable for each key.
#[derive(Clone)]
pub(crate) struct Options<C> {
    pub(crate) file: FileArgs,
    pub(crate) pipes: Pipes,
    /// Cores that the process may use. Determined only at the start, so that a reload does not change the default
    /// number of workers.
    pub(crate) cores: usize,
    /// The values of flags and variables.
    pub(crate) given: Table,
    /// The flag or the variable of each key that is given.
    pub(crate) origins_by_key: HashMap<String, String>,
    server: PhantomData<fn() -> C>,
}

impl<C> Options<C> {
    /// The reason why `given` cannot be combined with another flag: it sets one of these keys. Variables do not
    /// conflict, because flags take precedence.
    pub(crate) fn conflict(&self, given: &str, keys: &[&str]) -> Option<String> {
        let flags = keys.iter().filter_map(|key| self.origins_by_key.get(*key));
        let flag = flags.into_iter().find(|origin| is_flag(origin))?;
        Some(format!("{given} cannot be used with {flag}"))
    }

    /// Sets a key that was given as `origin`.
    pub(crate) fn set(&mut self, key: &str, origin: String, value: Written) {
        let (tables, name) = key.rsplit_once('.').unwrap_or(("", key));
        let mut table = &mut self.given;
        let mut path = String::new();
        for part in tables.split('.').filter(|part| !part.is_empty()) {
            path = if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
            let inner = table.entry(part).or_insert_with(|| Table::new().into());
            let is_off = inner.as_str() == Some("false");
            if is_off
                && self.origins_by_key.get(&path).is_some_and(|origin| is_flag(origin))
                && !is_flag(&origin)
            {
                // `--access-log=false` takes precedence over variables of keys below it.
                return;
            }
            if !inner.is_table() {
                // `--access-log --access-log-format json`: the key implies its table.
                *inner = Table::new().into();
            }
            table = inner.as_table_mut().expect("a table");
        }
        table.insert(name.to_owned(), value);
        self.origins_by_key.insert(key.to_owned(), origin);
    }
}

impl<C: Server> Args for Options<C> {
    fn augment_args(command: Command) -> Command {
        let command = FileArgs::augment_args(command).mut_args(|argument| {
            match (argument.get_env(), argument.get_long().map(str::to_owned)) {
                (Some(_), Some(flag)) => {
                    argument.env(variable(C::COMMAND, &flag)).hide_env_values(true)
                }
                _ => argument,
            }
        });
        command.args(declarations(&mut C::default()).iter().filter_map(argument::<C>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Whether a place is a flag or an argument rather than a variable.
fn is_flag(origin: &str) -> bool {
    origin.starts_with('-')
}

/// The flag of a key.
fn argument<C: Server>(key: &Declaration) -> Option<Arg> {
    let (flag, variable) = (key.flag.clone()?, key.variable(C::COMMAND)?);
    let argument = Arg::new(flag.clone())
        .long(flag)
        .env(variable)
        .hide_env_values(true)
        .value_name(key.kind.clone())
        .value_parser(clap::value_parser!(OsString))
        .help(key.text(true));
    let argument = match &key.key[..] {
        "listen" => argument.short('l'),
        "runtime.workers" => argument.short('w'),
        _ => argument,
    };
    let argument = match key.section {
        "Server" => argument,
        section => argument.help_heading(section),
    };
    Some(if key.list {
        argument.action(ArgAction::Append).value_delimiter(',')
    } else if key.kind.starts_with("bool") {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else {
        argument
    })
}

impl<C: Server> FromArgMatches for Options<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (pipes, given, origins_by_key) = Default::default();
        let file = FileArgs::from_arg_matches(matches)?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let mut options = Self { file, pipes, cores, given, origins_by_key, server: PhantomData };
        for key in declarations(&mut C::default()) {
            let (Some(flag), Some(variable)) = (&key.flag, key.variable(C::COMMAND)) else {
                continue;
            };
            let Some(values) = matches.get_many::<OsString>(flag) else { continue };
            let origin = match matches.value_source(flag) {
                Some(ValueSource::EnvVariable) => variable,
                _ => format!("--{flag}"),
            };
            let text = |value: &OsString| {
                let text = value.to_str().map(Written::from);
                text.ok_or_else(|| {
                    Error::raw(
                        ErrorKind::InvalidUtf8,
                        format!("{origin}: {value:?} is not UTF-8\n"),
                    )
                })
            };
            let mut texts = values.map(text).collect::<Result<Vec<_>, _>>()?;
            let value = if key.list {
                texts.retain(|text| text.as_str() != Some(""));
                texts.into()
            } else {
                texts.swap_remove(0)
            };
            options.set(&key.key, origin, value);
        }
        if let Some(port) = options.file.port {
            if let Some(reason) = options.conflict("--port", &["listen"]) {
                return Err(Error::raw(ErrorKind::ArgumentConflict, reason + "\n"));
            }
            options.set("listen", "--port".to_owned(), vec![port.to_string()].into());
        }
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
