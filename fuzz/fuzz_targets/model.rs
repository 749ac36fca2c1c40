//! Any bytes as a model file: what is taken can be written, shown and used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensornoodl_data::Model;

fuzz_target!(|bytes: &[u8]| match Model::from_bytes(bytes, "fuzz.safetensors") {
    Ok(model) => {
        let again = model.to_bytes().expect("a model that was read is written");
        let again = Model::from_bytes(&again, "again").expect("and read again");
        assert_eq!(again.card, model.card);
        for pattern in 0..model.learner.dictionary().patterns() {
            model.leading(pattern, |factors| &factors.rows);
        }
    }
    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
});
