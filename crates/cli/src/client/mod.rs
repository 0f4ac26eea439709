//! `phalanx pub` and `phalanx sub`: clients for any MQTT broker, for interactive use and scripts.
//!
//! `address.rs` parses broker addresses; `wire.rs` is a socket, optionally with TLS; `connection.rs` a connection that
//! waits for several events; `connect.rs` opens a session; `publish.rs` and `subscribe.rs` are the commands;
//! `output.rs` formats messages; `signals.rs` prints, unless a signal ends it; `failure.rs` defines errors and exit codes.

mod address;
mod connect;
mod connection;
mod failure;
mod output;
mod publish;
mod signals;
mod subscribe;
mod wire;

pub(crate) use publish::Pub;
pub(crate) use subscribe::Sub;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use address::Address;

use crate::units::{seconds, time};

/// The broker and the credentials.
#[derive(Args)]
#[command(next_help_heading = "Broker")]
struct To {
    /// Address of the broker: mqtt://USER@HOST:PORT, where user and port are optional; mqtts:// uses TLS and port
    /// 8883.
    #[arg(
        long,
        short,
        value_name = "URL",
        default_value = "mqtt://localhost:1883",
        env = "PHALANX_BROKER",
        hide_env_values = true,
        value_parser = address::Parser
    )]
    broker: Address,

    /// File whose first line is the password. Alternatively, set the environment variable PHALANX_PASSWORD:
    /// command lines are visible to all users of this machine.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// PEM file with the certificate authorities to trust. [default: those of this system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// PEM file with a client certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// PEM file with the private key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Client identifier. [default: assigned by the broker]
    #[arg(long, short = 'i', value_name = "ID")]
    client_id: Option<String>,

    /// Use MQTT 3.1.1. By default MQTT 5 is tried first.
    #[arg(long)]
    v311: bool,

    /// Keep-alive interval.
    #[arg(long, value_name = "time", default_value = "60s", value_parser = keep_alive)]
    keep_alive: u16,
}

fn keep_alive(text: &str) -> Result<u16, String> {
    seconds(text, 5..=u16::MAX.into()).map(|seconds| seconds as u16)
}

/// Parses a timeout of at least a second.
fn timeout(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(1))
}

/// Parses a QoS.
fn qos(text: &str) -> Result<phalanx_mqtt::QoS, String> {
    let qos = text.parse().ok().and_then(|number| phalanx_mqtt::QoS::from_u8(number).ok());
    qos.ok_or_else(|| "0 (at most once), 1 (at least once) or 2 (exactly once)".to_owned())
}
