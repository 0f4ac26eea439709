//! `phalanx pub` and `phalanx sub`: clients of any MQTT broker, for people and for scripts.
//!
//! `address.rs` is where a broker is, `wire.rs` a socket, maybe under TLS, `link.rs` a connection that waits for several
//! things at once, `begin.rs` how one begins, `publish.rs` and `subscribe.rs` the two commands, `show.rs` how a message is printed, `failure.rs`
//! what goes wrong and with which exit code.

mod address;
mod begin;
mod failure;
mod link;
mod publish;
mod show;
mod subscribe;
mod wire;

pub(crate) use publish::Pub;
pub(crate) use subscribe::Sub;

use std::path::PathBuf;

use clap::Args;

use address::Address;

/// Which broker, and as whom.
#[derive(Args)]
#[command(next_help_heading = "The broker")]
struct To {
    /// Where it is: mqtt://USER@HOST:PORT, or less of that; mqtts:// for TLS, on port 8883 unless told.
    #[arg(
        long,
        short,
        value_name = "URL",
        default_value = "mqtt://localhost:1883",
        env = "PHALANX_BROKER"
    )]
    broker: Address,

    /// A file whose first line is the password. Or else it is in the environment variable PHALANX_PASSWORD: what
    /// is said on a command line, everybody on this machine can see.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// A PEM file with the certificates that the broker's must lead to. [default: those that this system trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// A PEM file with a certificate of the client's own, for brokers that ask for one.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// A PEM file with the key of that.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// The client's name. [default: the broker chooses one]
    #[arg(long, short = 'i', value_name = "ID")]
    client_id: Option<String>,

    /// Speak MQTT 3.1.1. Otherwise it is MQTT 5, and 3.1.1 with brokers that know no other.
    #[arg(long)]
    v311: bool,

    /// Seconds of silence after which broker and client look whether the other is still there.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u16).range(5..))]
    keep_alive: u16,
}

/// A QoS, by its number.
fn qos(text: &str) -> Result<phalanx_mqtt::QoS, String> {
    let qos = text.parse().ok().and_then(|number| phalanx_mqtt::QoS::of(number).ok());
    qos.ok_or_else(|| "0 (once at most), 1 (once at least) or 2 (exactly once)".to_owned())
}
