//! The `phalanx` command.

#![forbid(unsafe_code)]

mod admin;
mod broker;
mod client;
mod files;
mod import;
mod manual;
mod options;
mod passwd;
mod profile;
mod server;
mod service;
mod status;
mod stdout;
mod stingy;
#[cfg(target_os = "linux")]
mod threads;
mod top;
mod units;
mod web;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Error, Parser, Subcommand};
use phalanx_config::nearest;

/// Web server, MQTT broker and tools of Phalanx, a runtime that executes similar work of different requests together.
#[derive(Parser)]
#[command(name = "phalanx", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Web(web::Web),
    Broker(broker::Broker),
    Pub(client::Pub),
    Sub(client::Sub),
    Top(top::Top),
    Passwd(passwd::Passwd),
    Profile(profile::Profile),
    #[cfg(target_os = "linux")]
    Threads(threads::Threads),
    Stingy(stingy::Stingy),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Suggests a command for an unknown one. clap suggests none for a short name with exchanged letters.
fn suggested(mut error: Error) -> Error {
    if error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand)
    {
        let command = Cli::command();
        let known = command.get_subcommands().map(|known| known.get_name());
        if let Some(suggestion) = nearest(unknown, known).map(str::to_owned) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![suggestion]));
        }
    }
    error
}

fn main() -> ExitCode {
    // For bad arguments clap prints an error to stderr and exits with 2.
    let cli = Cli::try_parse().unwrap_or_else(|error| suggested(error).exit());
    match cli.command {
        Command::Web(web) => web.run(),
        Command::Broker(broker) => broker.run(),
        Command::Pub(publish) => publish.run(),
        Command::Sub(subscribe) => subscribe.run(),
        Command::Top(top) => top.run(),
        Command::Passwd(passwd) => passwd.run(),
        Command::Profile(profile) => profile.run(),
        #[cfg(target_os = "linux")]
        Command::Threads(threads) => threads.run(),
        Command::Stingy(stingy) => stingy.run(),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    }
}
