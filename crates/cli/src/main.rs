//! The `phalanx` command.

#![forbid(unsafe_code)]

mod broker;
mod client;
mod content;
mod manual;
mod notify;
mod passwd;
mod service;
mod settings;
mod status;
mod top;
mod variables;
mod web;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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
    Completions(manual::Completions),
    Man(manual::Man),
}

/// The command line. Each server's variables have their own prefix, so that one environment can configure both.
fn command() -> clap::Command {
    Cli::command()
        .mut_subcommand("web", |web| variables::named(web, "PHALANX_WEB_"))
        .mut_subcommand("broker", |broker| variables::named(broker, "PHALANX_BROKER_"))
}

fn main() -> ExitCode {
    // For bad arguments clap prints an error to stderr and exits with 2.
    let matches = command().try_get_matches();
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| {
        let _ = error.print();
        let variable = |name: &str| std::env::var(name).ok();
        if let Some(name) = variables::source_variable(&error, &command(), variable) {
            status::print(format_args!("the value comes from the environment variable {name}"));
        }
        std::process::exit(error.exit_code())
    });
    match cli.command {
        Command::Web(web) => web.run(),
        Command::Broker(broker) => broker.run(),
        Command::Pub(publish) => publish.run(),
        Command::Sub(subscribe) => subscribe.run(),
        Command::Top(top) => top.run(),
        Command::Passwd(passwd) => passwd.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
