//! The command line of `phalanx-bench load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use phalanx::runtime::DriverChoice;

use super::http::url::Url;
use crate::arguments::{number, parse, seconds};

/// Send HTTP load to a server and measure its response times.
///
/// Closed loop unless --rate is given: each connection sends its next request when the previous one is answered, so
/// a slow server receives fewer requests. With --rate, requests start at intended times regardless of the server,
/// and latency counts from the intended start, including the wait for a free connection.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// URL to request, for example http://127.0.0.1:8080/index.html
    pub url: Url,

    /// With https: accept any certificate, for example a self-signed one
    #[arg(short = 'k', long)]
    pub insecure: bool,

    /// Use HTTP/2, with --pipeline concurrent streams per connection. Without TLS the server must support HTTP/2
    /// with prior knowledge
    #[arg(long, conflicts_with_all = ["think", "no_keep_alive"])]
    pub http2: bool,

    /// Use HTTP/3, with --pipeline concurrent streams per connection, in a closed loop. The URL must be one of https://
    #[arg(long, conflicts_with_all = ["http2", "rate", "think", "no_keep_alive", "in_order", "driver"])]
    pub http3: bool,

    /// Number of connections
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = number(1..=100_000))]
    pub connections: usize,

    /// Length of the measurement, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub duration: Duration,

    /// Length of the warm-up, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub warmup: Duration,

    /// Timeout of an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,

    /// Open loop: start this many requests per second, at random times (Poisson). Uses a whole core
    #[arg(short, long, value_name = "PER_SECOND", value_parser = rate)]
    pub rate: Option<f64>,

    /// With --rate: start requests at equal intervals
    #[arg(long, requires = "rate")]
    pub constant: bool,

    /// With --rate: at the end, continue for at most this long, in seconds, with requests whose intended start
    /// has passed
    #[arg(long, value_name = "SECONDS", default_value = "0", requires = "rate", value_parser = seconds)]
    pub finish: Duration,

    /// Count successful answers within this time, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = seconds)]
    pub objective: Duration,

    /// Open a new connection per request
    #[arg(long, conflicts_with = "pipeline")]
    pub no_keep_alive: bool,

    /// Connections model users, as in SURGE: each requests a page and its embedded objects over a new connection
    /// and reads it before the next one: for at least this time, in seconds, and three times as long on average
    /// (1 in SURGE)
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["rate", "pipeline", "no_keep_alive"], value_parser = seconds)]
    pub think: Option<Duration>,

    /// Visit the pages in this file over HTTP/2, each over a new connection. A line has the path of a page and those of its
    /// files, separated by spaces, the most popular page first. A third of the visitors is new; the others ask for files
    /// that have changed since --since, and expect 304. A visit counts as one request
    #[arg(long, value_name = "FILE", requires = "http2", conflicts_with_all = ["rate", "pipeline"], group = "list")]
    pub visits: Option<PathBuf>,

    /// With --visits: the time of the files
    #[arg(long, value_name = "DATE", default_value = super::workload::visits::CHANGED.1)]
    pub since: String,

    /// Concurrent requests per connection
    #[arg(long, value_name = "DEPTH", default_value_t = 1, value_parser = number(1..=1024))]
    pub pipeline: usize,

    /// Request the paths in this file, one per line, the most popular first, instead of the URL's path
    #[arg(long, value_name = "FILE", group = "list")]
    pub paths: Option<PathBuf>,

    /// Zipf exponent of the popularity: the Nth path has weight 1/N^ALPHA; 0 is uniform
    #[arg(long, value_name = "ALPHA", default_value_t = 1.0, requires = "list", value_parser = alpha)]
    pub zipf: f64,

    /// Request the paths in their order, from a random one on, instead of drawing them
    #[arg(long, requires = "paths")]
    pub in_order: bool,

    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Driver of the client: auto, uring or poll
    #[arg(long, value_name = "DRIVER", default_value_t = DriverChoice::Auto)]
    pub driver: DriverChoice,

    /// Report the processor time per request of this process and its children; may be repeated (Linux)
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,

    /// Also write `raw`: all counts, readings and latencies, for a process that adds several reports
    #[arg(long, hide = true, requires = "json")]
    pub raw: bool,
}

impl Options {
    /// The default options for this URL.
    pub fn new(url: Url) -> Self {
        parse([url.to_string()])
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1e8).contains(&rate) => Ok(rate),
        _ => Err("expected 0.001 to 100000000 requests per second".to_owned()),
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
            "http://a/ --visits f",
            "http://a/ --http2 --visits f --paths g",
            "http://a/ --think 1 --rate 9",
            "http://a/ --driver epoll",
        ] {
            assert_eq!(read(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
