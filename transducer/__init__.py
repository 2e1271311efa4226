"""FastConformer with CTC, RNN-T, TDT and hybrid heads. See transducer/README.md."""
