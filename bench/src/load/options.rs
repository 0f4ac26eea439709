//! What load to send: the command line of `phalanx load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use phalanx::runtime::DriverChoice;

use super::url::Url;

/// Send HTTP load to a server and measure how long it takes to answer.
///
/// Closed loop unless --rate is given: each connection sends its next request when the last is
/// answered, so a slow server is asked less. With --rate requests start when they are meant to,
/// whatever the server does, and a latency counts from then: time spent waiting for a free connection
/// is not left out.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where to send it, as in http://127.0.0.1:8080/index.html, or https://…
    pub url: Url,

    /// With https: trust any certificate, such as one that a server has signed itself
    #[arg(short = 'k', long)]
    pub insecure: bool,

    /// Speak HTTP/2, with --pipeline streams at a time on each connection. Without TLS the server must
    /// know beforehand that it is HTTP/2
    #[arg(long, conflicts_with_all = ["think", "no_keep_alive"])]
    pub http2: bool,

    /// Connections at a time
    #[arg(short, long, value_name = "N", default_value_t = 64,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub connections: usize,

    /// How long to measure, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub duration: Duration,

    /// How long to send load before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub warmup: Duration,

    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,

    /// Open loop: start this many requests a second, at random times (Poisson). It takes a whole core
    #[arg(short, long, value_name = "PER_SECOND", value_parser = rate)]
    pub rate: Option<f64>,

    /// With --rate: start requests at equal distances
    #[arg(long, requires = "rate")]
    pub constant: bool,

    /// With --rate: when the time is over, go on for so long at most with the requests that were meant
    /// to start within it and have waited for a connection, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", requires = "rate", value_parser = seconds)]
    pub finish: Duration,

    /// Count the successful answers that came within this time, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = seconds)]
    pub objective: Duration,

    /// Open a new connection for each request
    #[arg(long, conflicts_with = "pipeline")]
    pub no_keep_alive: bool,

    /// Connections are users, as SURGE has them: each asks for a page and what it embeds over a
    /// connection of its own, and reads it before the next: for this time at least, three times as
    /// long on average, in seconds (1 in SURGE)
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["rate", "pipeline", "no_keep_alive"], value_parser = seconds)]
    pub think: Option<Duration>,

    /// Requests under way on each connection at a time
    #[arg(long, value_name = "DEPTH", default_value_t = 1,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub pipeline: usize,

    /// Ask for the paths in this file, one a line, the most popular first, in place of the URL's
    #[arg(long, value_name = "FILE")]
    pub paths: Option<PathBuf>,

    /// How unequally popular the paths are: the Nth is asked for with a weight of 1/N^ALPHA; 0 is
    /// equally
    #[arg(long, value_name = "ALPHA", default_value_t = 1.0, requires = "paths", value_parser = alpha)]
    pub zipf: f64,

    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// How the client does its I/O: auto, uring or poll
    #[arg(long, value_name = "DRIVER", default_value_t = DriverChoice::Auto)]
    pub driver: DriverChoice,

    /// A server's process, whose processor time per request is to be reported, with its children's;
    /// may be repeated (Linux)
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// The defaults, for this URL.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            insecure: false,
            http2: false,
            connections: 64,
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(10),
            rate: None,
            constant: false,
            finish: Duration::ZERO,
            objective: Duration::from_millis(50),
            no_keep_alive: false,
            think: None,
            pipeline: 1,
            paths: None,
            zipf: 1.0,
            seed: 1,
            driver: DriverChoice::Auto,
            pids: Vec::new(),
            json: false,
        }
    }
}

/// A number of seconds, with or without an `s`, up to a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .strip_suffix('s')
        .unwrap_or(text)
        .parse()
        .map_err(|_| "a number of seconds is wanted, as in 10 or 0.5".to_owned())?;
    match number {
        0.0..=86_400.0 => Ok(Duration::from_secs_f64(number)),
        _ => Err("from 0 to 86400 seconds".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1e8).contains(&rate) => Ok(rate),
        _ => Err("from 0.001 to 100000000 requests a second".to_owned()),
    }
}

fn alpha(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(alpha) if (0.0..=10.0).contains(&alpha) => Ok(alpha),
        _ => Err("from 0 to 10".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn read(line: &str) -> Result<Options, clap::Error> {
        let words = ["load"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.options)
    }

    #[test]
    fn the_command_line() {
        Line::command().debug_assert();
        let defaults = read("http://a/").unwrap();
        assert_eq!(format!("{defaults:?}"), format!("{:?}", Options::new(defaults.url.clone())));
        let options =
            read("http://a/ -c 7 --duration 0.5s -r 1e3 --constant --pipeline 4").unwrap();
        assert_eq!((options.connections, options.rate, options.pipeline), (7, Some(1000.0), 4));
        assert_eq!(options.duration, Duration::from_millis(500));
        for wrong in [
            "",
            "a",
            "ftp://a/",
            "http://a/ -c 0",
            "http://a/ --rate 0",
            "http://a/ --constant",
            "http://a/ --duration x",
            "http://a/ --duration NaN",
            "http://a/ --no-keep-alive --pipeline 2",
            "http://a/ --zipf 1",
            "http://a/ --think 1 --rate 9",
            "http://a/ --driver epoll",
        ] {
            assert_eq!(read(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
