"""What a study is and how it runs: parameters, phases, wording, the folder it leaves behind."""
