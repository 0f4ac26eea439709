//! A server under cachegrind, with the load in a separate process.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::load::Report;
use crate::runner::site::Site;
use crate::system::cachegrind::{Counts, command, missing, read};
use crate::system::process::Group;
use crate::system::programs;

/// A program and its arguments.
pub(crate) type Line = Vec<OsString>;

/// The web server with one worker, on the driver that valgrind supports.
pub(crate) fn web(phalanx: &Path, site: &Site) -> Line {
    let mut line = vec![phalanx.into(), "web".into(), site.root.clone().into()];
    line.extend(["--driver=poll", "--workers=1", "--listen=127.0.0.1:0"].map(OsString::from));
    line
}

/// Its threaded twin.
///
/// # Errors
/// When the system does not tell the path of this program.
pub(crate) fn twin(site: &Site) -> io::Result<Line> {
    Ok(vec![programs::own()?.into(), "twin-server".into(), site.root.clone().into()])
}

/// Length in seconds beyond which the longer load is not repeated; `each_request` then fails.
const MAX_SECONDS: u32 = 60;

/// The counts per request, as the difference of two loads of different length in closed loop, which excludes
/// one-time costs. If the second load completed no more requests than the first, the second is repeated with
/// twice the length.
///
/// # Errors
/// When valgrind is not installed (`NotFound`, with an installation hint), or the server or the load fails.
pub(crate) fn each_request(
    server: &Line,
    site: &Site,
    connections: usize,
    seconds: [u32; 2],
) -> io::Result<Counts> {
    let run = |seconds| whole(server, site, connections, seconds);
    let [short, mut long] = seconds;
    let (few, fewer) = run(short)?;
    loop {
        let (many, more) = run(long)?;
        if more > fewer {
            return Ok(many.beyond(few, more - fewer));
        }
        if long > MAX_SECONDS {
            return Err(io::Error::other(format!(
                "{fewer} requests in the shorter load, {more} in the longer"
            )));
        }
        long *= 2;
    }
}

/// The counts of a run of the server from start to exit, and the number of answered requests.
fn whole(
    server: &Line,
    site: &Site,
    connections: usize,
    seconds: u32,
) -> io::Result<(Counts, usize)> {
    use std::os::unix::process::CommandExt;
    // A file rather than a pipe: valgrind warns about each of hundreds of unknown system calls, and an unread
    // pipe would fill and block the server.
    let mut errors = tempfile::tempfile()?;
    let mut server = command(&server[0])
        .args(&server[1..])
        .stdout(Stdio::piped())
        .stderr(errors.try_clone()?)
        .process_group(0)
        .spawn()
        .map(Group)
        .map_err(missing)?;
    let mut ready = String::new();
    if let Some(out) = server.0.stdout.take() {
        BufReader::new(out).read_line(&mut ready)?;
    }
    let url = ready.trim().strip_prefix("listening on ").unwrap_or_default();
    let load = Command::new(programs::own()?)
        .args(["load", &format!("{}/", url.trim_end_matches('/'))])
        .args([&format!("--connections={connections}"), &format!("--duration={seconds}")])
        .args(["--warmup=0", "--timeout=30", "--json", "--paths"])
        .arg(&site.paths)
        .stderr(Stdio::inherit())
        .output();
    if let Some(process) = Pid::from_raw(server.0.id().cast_signed()) {
        // The process id is valid, since the child was not waited for yet.
        kill_process(process, Signal::INT)?;
    }
    server.0.wait()?;
    let mut said = String::new();
    errors.rewind()?;
    errors.read_to_string(&mut said)?;
    let load: Report = serde_json::from_slice(&load?.stdout)?;
    let last = said.trim().lines().last().unwrap_or_default();
    let failed = || io::Error::other(format!("valgrind failed: {last}"));
    if load.errors.total() > 0 {
        return Err(io::Error::other(format!("not all requests were answered: {:?}", load.errors)));
    }
    Ok((read(&said).ok_or_else(failed)?, load.completed as usize))
}
