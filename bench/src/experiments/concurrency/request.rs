//! A request and its objects: ten KiB in seven objects, allocated at different stages.

use std::fmt::Debug;
use std::ops::DerefMut;

use phalanx_core::Pooled;

use crate::experiments::pipeline::{self, STAGES};

/// Bytes of input, which each request finds uncached.
const INPUT: usize = 1024;

/// An allocator of a request's objects.
pub(crate) trait Memory: 'static {
    /// An owning pointer to an object.
    type Held<T: 'static>: DerefMut<Target = T> + 'static;

    /// Allocates an object.
    fn hold<T: 'static>(value: T) -> Self::Held<T>;
}

/// The general allocator: a box per object.
#[derive(Debug)]
pub(crate) struct General;

impl Memory for General {
    type Held<T: 'static> = Box<T>;

    fn hold<T: 'static>(value: T) -> Box<T> {
        Box::new(value)
    }
}

/// The pools of the processor.
#[derive(Debug)]
pub(crate) struct Pools;

impl Memory for Pools {
    type Held<T: 'static> = Pooled<T>;

    fn hold<T: 'static>(value: T) -> Pooled<T> {
        Pooled::new(value)
    }
}

pub(crate) type Connection = [u8; 512];
pub(crate) type Input = [u8; 4096];
pub(crate) type Header = [u8; 1024];
pub(crate) type Path = [u8; 256];
pub(crate) type Context = [u8; 2048];
pub(crate) type Output = [u8; 2048];
pub(crate) type Line = [u8; 64];

/// Total size of a request's objects in bytes.
pub(crate) const BYTES: usize = size_of::<Connection>()
    + size_of::<Input>()
    + size_of::<Header>()
    + size_of::<Path>()
    + size_of::<Context>()
    + size_of::<Output>()
    + size_of::<Line>();

/// State shared by all requests: the code of the stages and the inputs.
#[derive(Debug)]
pub(crate) struct World {
    code: [fn(&mut pipeline::Request); STAGES],
    inputs: Vec<[u8; INPUT]>,
}

impl World {
    /// A world with `kib` KiB of code per stage and an input for each of `requests` requests.
    pub(crate) fn new(kib: u64, requests: usize) -> Self {
        let input = |n: usize| [n as u8; INPUT];
        Self { code: pipeline::stages(kib), inputs: (0..requests.max(1)).map(input).collect() }
    }
}

/// A request in flight.
pub(crate) struct Work<M: Memory> {
    number: usize,
    /// The next stage.
    stage: usize,
    /// Arrival time on the owner's clock.
    pub(crate) came: u64,
    request: pipeline::Request,
    connection: Option<M::Held<Connection>>,
    input: Option<M::Held<Input>>,
    header: Option<M::Held<Header>>,
    path: Option<M::Held<Path>>,
    context: Option<M::Held<Context>>,
    output: Option<M::Held<Output>>,
    line: Option<M::Held<Line>>,
}

/// Reads one byte of each cache line.
fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().step_by(64).fold(0, |sum, byte| sum ^ byte)
}

const MADE: &str = "made by an earlier stage";

impl<M: Memory> Work<M> {
    /// The request of index `number`, before the first stage.
    pub(crate) fn new(number: usize, came: u64) -> Self {
        Self {
            number,
            stage: 0,
            came,
            request: pipeline::Request::new(number),
            connection: None,
            input: None,
            header: None,
            path: None,
            context: None,
            output: None,
            line: None,
        }
    }

    /// Runs the next stage. Returns true after the last one, which frees all objects.
    pub(crate) fn step(&mut self, world: &World) -> bool {
        (world.code[self.stage])(&mut self.request);
        match self.stage {
            0 => {
                let mut input = [0; size_of::<Input>()];
                input[..INPUT].copy_from_slice(&world.inputs[self.number % world.inputs.len()]);
                self.connection = Some(M::hold([self.number as u8; size_of::<Connection>()]));
                self.input = Some(M::hold(input));
            }
            1 => {
                let mut header = [0; size_of::<Header>()];
                header.copy_from_slice(&self.input.as_ref().expect(MADE)[..INPUT]);
                self.header = Some(M::hold(header));
            }
            2 => {
                let value = sum(&**self.header.as_ref().expect(MADE));
                self.path = Some(M::hold([value; size_of::<Path>()]));
            }
            3 => {
                let value = sum(&**self.path.as_ref().expect(MADE));
                self.connection.as_mut().expect(MADE).fill(value);
            }
            4 => {
                let value = sum(&**self.connection.as_ref().expect(MADE));
                self.context = Some(M::hold([value; size_of::<Context>()]));
            }
            5 => {
                let context = self.context.as_ref().expect(MADE);
                self.output = Some(M::hold(**context));
            }
            6 => {
                let value = sum(&**self.output.as_ref().expect(MADE));
                self.input.as_mut().expect(MADE)[INPUT..].fill(value);
            }
            _ => {
                let value = sum(&**self.input.as_ref().expect(MADE));
                let line = M::hold([value; size_of::<Line>()]);
                self.line = Some(line);
                std::hint::black_box(sum(&**self.line.as_ref().expect(MADE)));
                self.free();
                return true;
            }
        }
        self.stage += 1;
        false
    }

    fn free(&mut self) {
        (self.connection, self.input, self.header) = (None, None, None);
        (self.path, self.context, self.output, self.line) = (None, None, None, None);
    }
}

impl<M: Memory> Debug for Work<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "request {} before stage {}", self.number, self.stage)
    }
}
