//! A scripted server: executes one statement, which inserts a number, and breaks in every way that a seed chooses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use phalanx::net::{IoTimeout, Stream};
use phalanx_testkit::postgres::messages::{put, put_error, put_welcome, take};

/// Numbers with this remainder violate a constraint.
const INVALID: i32 = 3;

/// The table, and the behavior of the server.
pub(crate) struct Server {
    /// How often each number was committed.
    pub(crate) committed: Mutex<HashMap<i32, u32>>,
    rng: Mutex<Rng>,
    /// How many of a thousand messages cause a fault.
    faults: u32,
}

/// Why a connection ends.
struct Ended;

/// A transaction in progress.
#[derive(Default)]
struct Transaction {
    bound: i32,
    inserted: Vec<i32>,
    has_failed: bool,
}

impl Server {
    pub(crate) fn new(seed: u64, faults: u32) -> Arc<Self> {
        let (committed, rng) = (Mutex::default(), Mutex::new(Rng::with_seed(seed)));
        Arc::new(Self { committed, rng, faults })
    }

    /// Whether the constraint permits a number.
    pub(crate) fn accepts(number: i32) -> bool {
        number % 5 != INVALID
    }

    pub(crate) async fn serve(&self, stream: Stream) {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut transaction = Transaction::default();
        let mut has_started = false;
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE).await {
            let mut result = Ok(());
            while result.is_ok()
                && let Some((tag, body)) = take(&mut input, &mut has_started)
            {
                result = self.handle(tag, &body, &mut transaction, &mut output);
            }
            let sent = stream.write(std::mem::take(&mut output), IoTimeout::NONE).await;
            if sent.is_err() || result.is_err() {
                return;
            }
        }
    }

    fn should_fail(&self) -> bool {
        self.rng.lock().unwrap().u32(..1000) < self.faults
    }

    fn handle(
        &self,
        tag: u8,
        body: &[u8],
        transaction: &mut Transaction,
        output: &mut Vec<u8>,
    ) -> Result<(), Ended> {
        let is_skipping = transaction.has_failed;
        match tag {
            0 => put_welcome(output),
            b'S' => {
                if self.should_fail() {
                    return Err(Ended);
                }
                let inserted = std::mem::take(transaction).inserted;
                for number in inserted.into_iter().filter(|_| !is_skipping) {
                    *self.committed.lock().unwrap().entry(number).or_default() += 1;
                }
                if self.should_fail() {
                    if self.rng.lock().unwrap().bool() {
                        // As a pooler whose server broke after the commit.
                        output.clear();
                        put_error(output, "FATAL", "08P01");
                    }
                    return Err(Ended);
                }
                put(output, b'Z', b"I");
            }
            b'X' => return Err(Ended),
            _ if is_skipping => {}
            b'C' => put(output, b'3', b""),
            b'P' => put(output, b'1', b""),
            b'D' => {
                put(output, b't', b"\0\x01\0\0\0\x17");
                put(output, b'n', b"");
            }
            b'B' => {
                // Two numbers precede the parameter: its length, and that of the formats of results.
                let parameter = body[body.len() - 8..].first_chunk().expect("four bytes");
                transaction.bound = i32::from_be_bytes(*parameter);
                put(output, b'2', b"");
            }
            b'E' => return self.execute(transaction, output),
            _ => panic!("the client sent a message {:?}", tag as char),
        }
        Ok(())
    }

    fn execute(&self, transaction: &mut Transaction, output: &mut Vec<u8>) -> Result<(), Ended> {
        let number = transaction.bound;
        if self.should_fail() {
            let fault = self.rng.lock().unwrap().u8(..5);
            match fault {
                0 => put_error(output, "FATAL", "57P01"),
                1 => put_error(output, "FATAL", "XX000"),
                2 => output.extend(b"garbage"),
                3 => put(output, b'G', b"\0\0\0"),
                _ => {}
            }
            return Err(Ended);
        }
        put(output, b'N', b"SNOTICE\0\0");
        if Self::accepts(number) {
            transaction.inserted.push(number);
            put(output, b'C', b"INSERT 0 1\0");
        } else {
            transaction.has_failed = true;
            put_error(output, "ERROR", "23514");
        }
        Ok(())
    }
}
