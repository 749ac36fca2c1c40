//! Named arrays in a safetensors file: numbers, bytes, JSON and lists of texts, with a checksum.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors, View};
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The entry of the metadata that says what the file is.
const ENTRY: &str = "tensornoodl";

/// The array with the checksum.
const CHECKSUM: &str = "checksum";

/// What to do with a damaged file.
const REMEDY: &str = "restore it from a copy, or learn it again";

/// An array to be written.
pub(crate) struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn floats(values: &[f64]) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array { dtype: Dtype::F64, shape: vec![values.len()], bytes }
    }

    /// A matrix whose rows follow each other in `values`.
    pub(crate) fn matrix(shape: [usize; 2], values: &[f64]) -> Array {
        Array { shape: shape.to_vec(), ..Array::floats(values) }
    }

    pub(crate) fn integers(values: &[i64]) -> Array {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Array { dtype: Dtype::I64, shape: vec![values.len()], bytes }
    }

    pub(crate) fn bytes(bytes: Vec<u8>) -> Array {
        Array { dtype: Dtype::U8, shape: vec![bytes.len()], bytes }
    }
}

impl View for Array {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Returns the two arrays of a list of texts: the bytes of all texts, and where each of them ends.
pub(crate) fn text_arrays<'t>(
    name: &str,
    texts: impl IntoIterator<Item = &'t String>,
) -> [(String, Array); 2] {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        ends.push(bytes.len() as i64);
    }
    [(format!("{name}.text"), Array::bytes(bytes)), (format!("{name}.end"), Array::integers(&ends))]
}

/// Returns the bytes of a file with these arrays, a checksum, and an entry of metadata.
///
/// # Errors
/// The message of the package safetensors.
pub(crate) fn serialize(mut arrays: Vec<(String, Array)>, entry: String) -> Result<Vec<u8>, String> {
    arrays.push((CHECKSUM.into(), Array::integers(&[0])));
    // The order of several entries would be random.
    let metadata = HashMap::from([(ENTRY.to_owned(), entry)]);
    let mut bytes = safetensors::serialize(arrays, Some(metadata)).map_err(|error| error.to_string())?;
    let (header, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| error.to_string())?;
    let place = metadata.info(CHECKSUM).map(|info| place(header, info)).ok_or("it has no checksum")?;
    let checksum = i64::from(checksum(&bytes, &place));
    bytes[place].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Returns the place of an array in a file with a header of this length.
fn place(header: usize, info: &TensorInfo) -> Range<usize> {
    let (start, end) = info.data_offsets;
    8 + header + start..8 + header + end
}

/// Returns the CRC-32 of all bytes, with zeros at the place of the checksum.
fn checksum(bytes: &[u8], place: &Range<usize>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..place.start]);
    hasher.update(&vec![0; place.len()]);
    hasher.update(&bytes[place.end..]);
    hasher.finalize()
}

/// Reads the arrays of a file. The bytes can come from anybody: no function panics, and memory is at most a small
/// multiple of the bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Length of the header in bytes.
    header: usize,
    metadata: Metadata,
    file: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads the header. `file` is the name of the file in messages.
    pub(crate) fn new(bytes: &'a [u8], file: &'a str) -> Result<Reader<'a>, Error> {
        let read = SafeTensors::read_metadata(bytes);
        let (header, metadata) = read.map_err(|error| {
            cannot(file, format!("{error} (it is another kind of file, or damaged; {REMEDY})"))
        })?;
        Ok(Reader { bytes, header, metadata, file })
    }

    pub(crate) fn cannot(&self, what: impl ToString) -> Error {
        cannot(self.file, what)
    }

    /// Reads the JSON document in the metadata.
    pub(crate) fn entry<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let entry = self.metadata.metadata().as_ref().and_then(|metadata| metadata.get(ENTRY));
        let entry = entry.ok_or_else(|| self.cannot(format!("its metadata has no entry {ENTRY}")))?;
        serde_json::from_str(entry).map_err(|error| self.cannot(error))
    }

    /// Compares the checksum with the bytes of the file.
    ///
    /// # Errors
    /// [`Error::Damaged`] if they differ.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let [written] = self.integers(CHECKSUM)?[..] else {
            return Err(self.cannot(format!("{CHECKSUM} has not one value")));
        };
        let found = checksum(self.bytes, &place(self.header, self.info(CHECKSUM)?));
        if written == i64::from(found) {
            return Ok(());
        }
        Err(Error::Damaged { file: self.file.into(), written, found: found.into(), remedy: REMEDY })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, Error> {
        self.metadata.info(name).ok_or_else(|| self.cannot(format!("it has no tensor {name}")))
    }

    fn get(&self, name: &str, dtype: Dtype) -> Result<&'a [u8], Error> {
        let info = self.info(name)?;
        if info.dtype != dtype {
            return Err(self.cannot(format!("{name} is {:?}, not {dtype:?}", info.dtype)));
        }
        let bytes = self.bytes.get(place(self.header, info));
        bytes.ok_or_else(|| self.cannot(format!("{name} reaches beyond the end")))
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<&'a [u8], Error> {
        self.get(name, Dtype::U8)
    }

    /// Reads a JSON document.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let read = serde_json::from_slice(self.bytes(name)?);
        read.map_err(|error| self.cannot(format!("{name}: {error}")))
    }

    pub(crate) fn integers(&self, name: &str) -> Result<Vec<i64>, Error> {
        Ok(numbers(self.get(name, Dtype::I64)?, i64::from_le_bytes))
    }

    /// Reads finite numbers.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f64>, Error> {
        let values = numbers(self.get(name, Dtype::F64)?, f64::from_le_bytes);
        let finite = values.iter().all(|value| value.is_finite());
        if finite { Ok(values) } else { Err(self.cannot(format!("{name} has values that are not finite"))) }
    }

    /// Reads a matrix of finite numbers: returns its shape, and its rows one after the other.
    pub(crate) fn matrix(&self, name: &str) -> Result<([usize; 2], Vec<f64>), Error> {
        let values = self.floats(name)?;
        match self.info(name)?.shape[..] {
            [rows, columns] => Ok(([rows, columns], values)),
            _ => Err(self.cannot(format!("{name} is no matrix"))),
        }
    }

    /// Reads a list of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, Error> {
        let bytes = self.bytes(&format!("{name}.text"))?;
        let ends = self.integers(&format!("{name}.end"))?;
        let wrong = || self.cannot(format!("{name} is not a list of texts in UTF-8"));
        let all = std::str::from_utf8(bytes).map_err(|_| wrong())?;
        let mut texts = Vec::with_capacity(ends.len());
        let mut start = 0;
        for end in ends {
            let end = usize::try_from(end).map_err(|_| wrong())?;
            texts.push(all.get(start..end).ok_or_else(wrong)?.to_owned());
            start = end;
        }
        if start == all.len() { Ok(texts) } else { Err(wrong()) }
    }
}

fn cannot(file: &str, what: impl ToString) -> Error {
    Error::Format { file: file.into(), format: "a model", what: what.to_string() }
}

/// Decodes numbers of 8 bytes each.
fn numbers<T>(bytes: &[u8], from_bytes: impl Fn([u8; 8]) -> T) -> Vec<T> {
    let number = |bytes: &[u8]| from_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| bytes[at]));
    bytes.chunks_exact(8).map(number).collect()
}
