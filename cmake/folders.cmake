# The folders of src/ in the order in which they may use each other: a folder includes only headers of itself and of
# folders before it. The build adds them in this order; tests/conventions checks the includes against it.
set(VARVE_FOLDERS core network io receipts radixnet reference passes plan formats kernels products engine training distribute library apps)
