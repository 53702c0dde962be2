/* A node as a machine describes itself: NCCL's topology XML, or the matrix of `nvidia-smi topo -m`. Both become a
 * NodeImport, and that the text of a cluster file, so that what is printed, drawn and written is one thing. What the
 * dump does not say is taken from topologies/imports/links.yaml, and each such assumption is noted. */
#pragma once
#include "node_topology.h"

typedef struct {
  char *source;     /* "NCCL's topology XML /tmp/topo.xml"; owned */
  int sm;           /* compute capability × 10; 0: not said */
  char *cpu_vendor; /* owned; NULL: not said */
  int cpu_model;

  NodeTopology node; /* sockets, switches, ports; rails are filled by node_import_yaml(). A Bps of 0: not said. Pairs
                        are NVLinks from GPU to GPU */
  int *switch_links; /* owned; [n_gpus]: NVLinks of a GPU to NVSwitches */
  double nic_Bps;    /* 0: not said */
  GPtrArray *notes;  /* owned, of char *: what was left out or assumed */
} NodeImport;

/* What the user adds. NULL or 0: not given. */
typedef struct {
  const char *name;       /* of the cluster; needed */
  const char *gpu;        /* file of the GPU */
  const char *generation; /* "hopper", …; wins over the dump's */
  double nic_Bps;         /* wins over the dump's */
} ImportChoices;

/* What NCCL_TOPO_DUMP_FILE writes: system > cpu > pci (nested) > gpu > nvlink, nic > net. `length` bytes of `text`,
 * NUL-terminated; errors call it `name`. INPUT with name:line: what is no such XML, devices outside of a bus, GPUs or
 * PCIe rates that make no sense, more than 1,024 GPUs or NICs. */
NodeImport *nccl_xml_parse(const char *name, const char *text, gsize length, GError **error);
/* What `nvidia-smi topo -m` prints. INPUT with name:line: no matrix, rows that are not the header's, an unknown
 * relation, two halves that disagree. */
NodeImport *smi_matrix_parse(const char *name, const char *text, gsize length, GError **error);
typedef NodeImport *(*NodeImportParser)(const char *name, const char *text, gsize length, GError **error);
/* The same of a file. */
NodeImport *node_import_read(const char *file, NodeImportParser parse, GError **error);
NodeImport *node_import_new(char *source); /* takes the source; all else is zero */
void node_import_free(NodeImport *import);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NodeImport, node_import_free)
void node_import_note(NodeImport *import, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The text of a cluster file that cluster_read() takes; completes `import` (rails, notes). Owned by the caller. INPUT:
 * generation or NIC bandwidth neither said nor given, or unknown. */
char *node_import_yaml(NodeImport *import, const ImportChoices *choices, GError **error);
