//! Programs with threads run natively and under `phalanx threads`, with equal output and exit code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use super::machine_is_suitable;

/// A command that runs a program with a number of carriers.
pub(super) fn threads(carriers: u32, program: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["threads", "--carriers", &carriers.to_string(), "--"]).arg(program);
    command
}

pub(super) fn compile(folder: &Path, name: &str) -> Option<PathBuf> {
    compile_with(folder, name, &[])
}

fn compile_with(folder: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/threads/{name}.c"));
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-pthread", "-o"]).arg(&program).arg(&source).args(options);
    let Ok(output) = command.output() else {
        eprintln!("SKIPPED: there is no cc");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(program)
}

/// The output of a command, which must end.
pub(super) fn output(command: &mut Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{command:?} hangs: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn runs_as_natively(name: &str) {
    let home = tempfile::tempdir().unwrap();
    if let Some(program) = compile(home.path(), name).filter(|_| machine_is_suitable()) {
        compare(&program, |status| status.success());
    }
}

/// Runs a program natively, where it ends as `is_expected` says, and then with carriers.
fn compare(program: &Path, is_expected: impl Fn(ExitStatus) -> bool) {
    let expected = output(&mut Command::new(program));
    assert!(is_expected(expected.status), "{expected:?}");
    for carriers in [1, 2, 4] {
        let found = output(&mut threads(carriers, program));
        assert_eq!(found, expected, "{carriers} carriers");
    }
}

#[test]
fn locks_conditions_and_semaphores() {
    runs_as_natively("locks");
}

#[test]
fn sockets_and_pipes() {
    runs_as_natively("sockets");
}

#[test]
fn threads_of_c11() {
    runs_as_natively("c11");
}

#[test]
fn polls_of_sockets() {
    runs_as_natively("polls");
}

/// A thread that polls a socket is registered for all its later events. A thread that the monitor has sent home is not registered.
#[test]
fn polled_sockets_remain_registered() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "polls").filter(|_| machine_is_suitable()) else {
        return;
    };
    let found = |_| output(threads(2, &program).arg("where")).stdout;
    let all: Vec<_> = (0..10).map(found).collect();
    assert!(all.iter().any(|each| each == b"lasting\n"), "{all:?}");
    assert!(all.iter().all(|each| each != b"once\n"), "{all:?}");
}

/// Threads that wait for pipes, for connections and for events leave the carriers to others.
#[test]
fn pipes_listeners_and_events_occupy_no_carriers() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "occupied").filter(|_| machine_is_suitable()) else {
        return;
    };
    for carriers in [1, 2, 4] {
        // On a busy machine the monitor sends threads home as well.
        let run = || output(threads(carriers, &program).arg("where"));
        let runs: Vec<_> = (0..5).map(|_| run()).collect();
        assert!(runs.iter().all(|run| run.status.success()), "{runs:?}");
        let free = b"writes: free\naccepts: free\nreads: free\ndone\n";
        assert!(runs.iter().any(|run| run.stdout == free), "{carriers} carriers: {runs:?}");
    }
}

#[test]
fn descriptors_whose_flags_and_names_change() {
    runs_as_natively("descriptors");
}

#[test]
fn many_sockets_whose_flags_change() {
    runs_as_natively("unconfirmed");
}

#[test]
fn signals_that_converted_threads_accept() {
    runs_as_natively("acceptors");
}

#[test]
fn signals_that_the_first_thread_blocks_later() {
    runs_as_natively("masks");
}

#[test]
fn signals_to_threads_that_wait_for_conditions() {
    runs_as_natively("continued");
}

#[test]
fn signals_to_threads_that_compute() {
    runs_as_natively("interrupted");
}

#[test]
fn identity_cancellation_signals_and_children() {
    runs_as_natively("identity");
}

#[test]
fn waits_of_all_kinds() {
    runs_as_natively("conversions");
}

/// A thread that waits by any of these calls leaves its home for the carriers.
#[test]
fn waiting_threads_do_not_stay_at_home() {
    ends_on_carriers("conversions", 2, "done\n");
}

/// A thread that seldom computes while another one waits for the carrier does not stay at home.
#[test]
fn threads_that_seldom_compute_do_not_stay_at_home() {
    ends_on_carriers("forgiven", 1, "carrier\n");
}

/// Runs a program that prints where its threads are. On a busy machine the monitor sends threads home as well, so one
/// of five runs is sufficient.
fn ends_on_carriers(name: &str, carriers: u32, end: &str) {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), name).filter(|_| machine_is_suitable()) else {
        return;
    };
    let run = || output(threads(carriers, &program).arg("where"));
    let runs: Vec<_> = (0..5)
        .map(|_| String::from_utf8(run().stdout).unwrap())
        .take_while(|text| text.contains("home") || !text.ends_with(end))
        .collect();
    assert!(runs.len() < 5, "{runs:?}");
}

#[test]
fn faults_and_masks() {
    runs_as_natively("faults");
}

#[test]
fn attributes_of_kernel_threads() {
    runs_as_natively("attributes");
}

#[test]
fn robust_mutexes_whose_owners_end() {
    runs_as_natively("robust");
}

#[test]
fn locks_that_processes_share() {
    runs_as_natively("shared");
}

#[test]
fn priorities_of_threads_and_mutexes() {
    runs_as_natively("priorities");
}

#[test]
fn cancellations_in_all_calls() {
    runs_as_natively("cancellation");
}

#[test]
fn handlers_that_wait_or_jump() {
    runs_as_natively("handlers");
}

/// A handler that waits takes nothing from the wait that it interrupts, at any of its system calls, or between them.
#[test]
fn handlers_that_wait_at_all_points_of_a_wait() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "points").filter(|_| machine_is_suitable()) else {
        return;
    };
    let expected = output(&mut Command::new(&program));
    assert!(expected.status.success(), "{expected:?}");
    // The dynamic linker looks functions up at the start, not within the waits.
    let mut command = threads(2, &program);
    assert_eq!(output(command.arg("instructions").env("LD_BIND_NOW", "1")), expected);
}

#[test]
fn handlers_that_wait_on_the_own_kernel_thread() {
    runs_as_natively("returns");
}

#[test]
fn handlers_that_interrupt_calls_once() {
    runs_as_natively("restarts");
}

#[test]
fn waits_that_are_left_or_cancelled() {
    runs_as_natively("abandoned");
}

#[test]
fn joins_of_threads_that_join() {
    runs_as_natively("joins");
}

#[test]
fn calls_that_return_at_once() {
    runs_as_natively("atonce");
}

#[test]
fn credentials_of_all_threads_and_attributes_of_one() {
    runs_as_natively("credentials");
}

#[test]
fn children_of_threads_and_other_programs() {
    runs_as_natively("children");
}

#[test]
fn collectors_that_stop_threads_by_signals() {
    runs_as_natively("collector");
}

#[test]
fn the_collector_of_boehm() {
    if !Path::new("/usr/include/gc.h").exists() {
        return eprintln!("SKIPPED: there is no libgc-dev");
    }
    let home = tempfile::tempdir().unwrap();
    let program = compile_with(home.path(), "libgc", &["-lgc"]);
    if let Some(program) = program.filter(|_| machine_is_suitable()) {
        compare(&program, |status| status.success());
    }
}

#[test]
fn overflows_of_stacks_end_the_process() {
    let home = tempfile::tempdir().unwrap();
    if let Some(program) = compile(home.path(), "overflow").filter(|_| machine_is_suitable()) {
        compare(&program, |status| status.signal() == Some(rustix::process::Signal::SEGV.as_raw()));
    }
}

#[test]
fn threads_that_occupy_all_carriers_do_not_stop_others() {
    runs_as_natively("captive");
}

/// The threads also return to their kernel threads on a busy machine, where the other carrier may stop for a moment.
#[test]
fn threads_behind_one_that_computes_continue_on_another_carrier() {
    runs_as_natively("starved");
}

#[test]
fn polls_for_errors_and_ends_and_interrupted_sets() {
    runs_as_natively("events");
}

#[test]
fn blocked_pipe_signals_and_failures_after_a_part() {
    runs_as_natively("failures");
}

#[test]
fn calls_to_receive_that_return_at_once_or_wait_for_more() {
    runs_as_natively("receives");
}

#[test]
fn ends_and_full_queues_of_datagram_sockets() {
    runs_as_natively("datagrams");
}

#[test]
fn signals_to_the_calling_thread() {
    runs_as_natively("ownsignals");
}

#[test]
fn malformed_times_for_free_locks() {
    runs_as_natively("malformed");
}

#[test]
fn summons_of_threads_that_call_nothing_replaced() {
    runs_as_natively("summons");
}

#[test]
fn children_without_the_handlers_of_fork() {
    runs_as_natively("clones");
}

/// Carriers execute the threads of C11.
#[test]
fn threads_of_c11_run_on_carriers() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "c11").filter(|_| machine_is_suitable()) else {
        return;
    };
    let run = || output(threads(1, &program).arg("where")).stdout;
    assert!((0..20).any(|_| run() == b"shared\n"));
}

/// Carriers execute the threads.
#[test]
fn threads_run_on_carriers() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "carriers").filter(|_| machine_is_suitable()) else {
        return;
    };
    let native = output(&mut Command::new(&program));
    let shared = output(&mut threads(1, &program));
    assert_eq!(native.stdout, b"own\n");
    assert_eq!(shared.stdout, b"shared\n", "{shared:?}");
}

/// The settings precede the first thread. Four carriers and the monitor are beside the program's first thread.
#[test]
fn constructors_of_libraries_may_create_threads() {
    let home = tempfile::tempdir().unwrap();
    let library = ["-shared", "-fPIC"];
    let library =
        compile_with(home.path(), "constructor", &library).filter(|_| machine_is_suitable());
    let Some(library) = library else { return };
    let renamed = home.path().join("libconstructor.so");
    std::fs::rename(library, &renamed).unwrap();
    let options = ["-DPROGRAM", renamed.to_str().unwrap()];
    let program = compile_with(home.path(), "constructor", &options).unwrap();
    let counted = output(&mut threads(4, &program));
    assert_eq!(counted.stdout, b"6\n", "{counted:?}");
}

/// A server that is killed at the end of its test.
pub(super) struct Server(pub(super) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn memcached_serves_and_stops() {
    let program = Path::new("/usr/bin/memcached");
    if !program.exists() || !machine_is_suitable() {
        return eprintln!("SKIPPED: there is no memcached");
    }
    let address = SocketAddr::from((phalanx_testkit::tcp::unique_loopback(), 11211));
    let mut command = threads(2, program);
    command.args(["-u", "root", "-t", "4", "-l", &address.ip().to_string()]);
    let mut server = Server(command.spawn().unwrap());
    let connect = || TcpStream::connect(address).ok();
    let end = Instant::now() + Duration::from_secs(30);
    while connect().is_none() {
        assert!(Instant::now() < end, "memcached does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::scope(|scope| {
        for client in 0..16 {
            scope.spawn(move || exchange(connect().unwrap(), client));
        }
    });
    let pid = rustix::process::Pid::from_child(&server.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
}

/// Stores and reads values of several sizes.
fn exchange(mut stream: TcpStream, client: usize) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for size in (0..200_000).step_by(9973) {
        let value = vec![b'a' + client as u8; size];
        let mut request = format!("set key{client} 0 0 {size}\r\n").into_bytes();
        request.extend_from_slice(&value);
        write!(request, "\r\nget key{client}\r\n").unwrap();
        stream.write_all(&request).unwrap();
        let mut expected = format!("STORED\r\nVALUE key{client} 0 {size}\r\n").into_bytes();
        expected.extend_from_slice(&value);
        expected.extend_from_slice(b"\r\nEND\r\n");
        let mut answer = vec![0; expected.len()];
        reader.read_exact(&mut answer).unwrap();
        assert!(answer == expected, "client {client}, {size} bytes");
        assert!(reader.buffer().is_empty() || reader.fill_buf().unwrap().is_empty());
    }
}
