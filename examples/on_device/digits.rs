//! Trains the network digits.onnx in Rust, evaluates it, infers, and saves it. docs/devices.md has the commands.
//!
//! The state is memory of `digits_state_bytes` bytes; the table `digits_arrays` says what lies where.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ffi::{c_char, c_int, c_void, CStr, CString};

#[repr(C)]
struct Batch {
    images: *const f32,
    target: *const i32,
    rate: f32,
}

#[repr(C)]
struct LossBatch {
    images: *const f32,
    target: *const i32,
}

#[repr(C)]
struct InferBatch {
    images: *const f32,
}

/// A row of a table; the shape follows, which this program does not read.
#[repr(C)]
struct Array {
    name: *const c_char,
    spelled: *const c_char,
    dtype: *const c_char,
    role: *const c_char,
    offset: usize,
    size: usize,
    rank: c_int,
}

extern "C" {
    static digits_state_bytes: usize;
    static digits_arrays: Array;
    fn digits_load(state: *mut c_void, path: *const c_char) -> c_int;
    fn digits_save(state: *const c_void, path: *const c_char) -> c_int;
    fn digits_step(state: *mut c_void, batch: *const Batch, loss: *mut f32) -> c_int;
    fn digits_loss(state: *const c_void, batch: *const LossBatch, loss: *mut f32) -> c_int;
    fn digits_infer(state: *const c_void, batch: *const InferBatch, scores: *mut f32) -> c_int;
}

/// The status of a call as a result.
fn checked(status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("status {status}")) }
}

/// A state; the borrows of its methods keep two threads from changing it at once.
struct State {
    memory: *mut c_void,
    layout: Layout,
}

impl State {
    fn load(path: &str) -> Result<State, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let layout = Layout::from_size_align(unsafe { digits_state_bytes }, 64).map_err(|error| error.to_string())?;
        let memory = unsafe { alloc_zeroed(layout) } as *mut c_void;
        let state = State { memory, layout };
        checked(unsafe { digits_load(memory, path.as_ptr()) }).map(|()| state)
    }

    fn save(&self, path: &str) -> Result<(), String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        checked(unsafe { digits_save(self.memory, path.as_ptr()) })
    }

    fn step(&mut self, images: &[f32; 4096], target: &[i32; 64], rate: f32) -> Result<f32, String> {
        let batch = Batch { images: images.as_ptr(), target: target.as_ptr(), rate };
        let mut loss = 0.0;
        checked(unsafe { digits_step(self.memory, &batch, &mut loss) }).map(|()| loss)
    }

    fn loss(&self, images: &[f32; 4096], target: &[i32; 64]) -> Result<f32, String> {
        let batch = LossBatch { images: images.as_ptr(), target: target.as_ptr() };
        let mut loss = 0.0;
        checked(unsafe { digits_loss(self.memory, &batch, &mut loss) }).map(|()| loss)
    }

    fn infer(&self, images: &[f32; 4096]) -> Result<Vec<f32>, String> {
        let batch = InferBatch { images: images.as_ptr() };
        let mut scores = vec![0.0; 640];
        checked(unsafe { digits_infer(self.memory, &batch, scores.as_mut_ptr()) }).map(|()| scores)
    }

    fn first_array() -> String {
        unsafe { CStr::from_ptr(digits_arrays.name) }.to_string_lossy().into_owned()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        unsafe { dealloc(self.memory as *mut u8, self.layout) }
    }
}

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().collect();
    let begin = words.get(1).map_or("digits.safetensors", |word| word);
    let end = words.get(2).map_or("trained.safetensors", |word| word);
    let mut state = State::load(begin)?;

    // Class k of ten: an image whose column or row k % 8 is bright, with a pattern that differs by example.
    let (mut images, mut labels) = ([0f32; 4096], [0i32; 64]);
    for i in 0..64 {
        let label = i % 10;
        labels[i] = label as i32;
        for j in 0..64 {
            let place = if label < 8 { j % 8 } else { j / 8 };
            images[64 * i + j] = f32::from(u8::from(place == label % 8)) + 0.01 * ((7 * i + 5 * j) % 13) as f32;
        }
    }
    let before = state.loss(&images, &labels)?;
    for _ in 0..30 {
        state.step(&images, &labels, 0.01)?;
    }
    let after = state.loss(&images, &labels)?;
    let scores = state.infer(&images)?;
    let best = |row: &[f32]| (0..10).fold(0, |k, next| if row[next] > row[k] { next } else { k });
    let right = (0..64).filter(|&i| best(&scores[10 * i..10 * i + 10]) == i % 10).count();
    println!("loss {before:.3}, then {after:.3}; {right} of 64 right");
    state.save(end)?;
    if after < before { Ok(()) } else { Err(format!("{} and the other arrays do not learn", State::first_array())) }
}
